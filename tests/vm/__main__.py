"""`make test-vm`: the kernel tests on other kernels, in emulated machines, and one table in the end."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.vm import image, machine, results
from tests.vm.image import ROOT
from tests.vm.kernels import KERNELS, Fetched, VmError, choose, fetch, run

CACHE: Final = ROOT / ".vm"
START: Final = "/usr/local/sbin/vm-start"
PYTEST: Final = (
    "/opt/tests/bin/python -m pytest -v --color=no -p no:cacheprovider -p no:hypothesispytest "
    "-o faulthandler_timeout=90 --junit-xml=/results/junit.xml"
)
# What a new test file must be named after or lie in, to be run in the guests without further ado.
KERNEL_TESTS: Final = "tests/kernel tests/pipeline/readers/test_this_kernel.py"
SERVICE_TESTS: Final = "tests/vm/guest"
# Emulated, everything takes some twenty times as long; waiting for what happens must be as patient.
ENVIRONMENT: Final = "export REZOLUSD_GUEST=1 REZOLUSD_PATIENCE=6"
# The recipe of the README, with the wheel that came along and without a network.
INSTALL: Final = "PIP_NO_INDEX=1 PIP_NO_DEPS=1 make -o wheel install PYTHON=/usr/bin/python3"


class Plan(NamedTuple):
    """One boot.

    Attributes:
        name: what is tried in it.
        init: the guest's first process.
        job: a shell script, run in the checkout.
        seconds: after which the machine is ended.
    """

    name: str
    init: str
    job: str
    seconds: float


def plans(arguments: argparse.Namespace, first: bool) -> list[Plan]:
    """The boots of one kernel. systemd is the same on all of them, so only the first kernel runs it."""
    chosen = ["-k", f"'{arguments.k}'"] if arguments.k else []
    if arguments.short:
        chosen += ["-m", "core"]
    job = f"{ENVIRONMENT}\n{PYTEST} {' '.join(chosen)}"
    found = [Plan("kernel", START, f"{job} {KERNEL_TESTS}\n", arguments.seconds)]
    if first:
        service = f"{INSTALL}\n{ENVIRONMENT}\n{PYTEST} {' '.join(chosen[:2] if arguments.k else [])}"
        found.append(Plan("service", "/sbin/init", f"{service} {SERVICE_TESTS}\n", arguments.seconds))
    return [plan for plan in found if arguments.only in ("", plan.name)]


def prepare(names: str) -> tuple[list[Fetched], Path]:
    """Everything from outside: tools, kernels, the root file system. Raises `VmError`."""
    wanted = choose(names)
    image.install_tools(image.tools_missing(), os.geteuid() == 0)
    if os.geteuid() != 0:
        raise VmError("only root can make the guest's root file system")
    CACHE.mkdir(exist_ok=True)
    return fetch(wanted, CACHE / "kernels"), image.build(CACHE, sys.executable)


def build_wheel(folder: Path) -> Path:
    """The project's wheel, as `make wheel` builds it."""
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)], 120)
    (wheel,) = folder.glob("*.whl")
    return wheel


def carry_out(kernel: Fetched, plan: Plan, disk: Path, wheel: Path) -> tuple[str, str | None]:
    """One boot from its disks to its results: the machine's fault, and the JUnit text if any came back."""
    folder = CACHE / "runs" / f"{kernel.name}-{plan.name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source, back = folder / "source.tar", folder / "results.tar"
    machine.source_disk(source, plan.job, wheel, kernel.modules)
    machine.empty_disk(back)
    command = machine.command_line(kernel, disk, source, back, plan.init)
    ended = machine.boot(command, folder / "console.log", plan.seconds)
    junit = results.read(machine.unpack(back, folder))
    source.unlink()
    back.unlink()
    print(f"{kernel.release}, {plan.name}: {ended.fault or 'ended'} after {ended.seconds:.0f} s", flush=True)
    if ended.fault or junit is None:
        print(f"--- last lines of {folder / 'console.log'}\n{ended.tail()}\n---", flush=True)
    return ended.fault, junit


def try_all(arguments: argparse.Namespace) -> int:
    kernels, disk = prepare(arguments.kernels)
    wheel = build_wheel(CACHE / "wheel")
    boots = [(kernel, plan) for kernel in kernels for plan in plans(arguments, kernel is kernels[0])]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        ended = list(pool.map(lambda pair: carry_out(pair[0], pair[1], disk, wheel), boots))
    rows = []
    for kernel in kernels:
        own = {plan.name: end for (booted, plan), end in zip(boots, ended, strict=True) if booted is kernel}
        rows.append(results.gather(kernel.release, own))
    print(f"\n{results.details(rows)}\n\n{results.table(rows)}\n", flush=True)
    return 0 if all(map(results.ok, rows)) else 1


def shell(arguments: argparse.Namespace) -> int:
    """A console in the guest, in the checkout, until it is left."""
    kernels, disk = prepare(arguments.shell)
    folder = CACHE / "runs" / "shell"
    folder.mkdir(parents=True, exist_ok=True)
    source, back = folder / "source.tar", folder / "results.tar"
    job = f"{ENVIRONMENT}\nPATH=/opt/tests/bin:$PATH setsid -c bash -i </dev/ttyS0 >/dev/ttyS0 2>&1\n"
    machine.source_disk(source, job, build_wheel(CACHE / "wheel"), kernels[0].modules)
    machine.empty_disk(back)
    command = machine.command_line(kernels[0], disk, source, back, START)
    print("the checkout is /src; what you put into /results is in .vm/runs/shell afterwards; exit ends it")
    code = subprocess.run(machine.interactive(command), check=False).returncode
    machine.unpack(back, folder)
    return code


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.vm", description=__doc__)
    names = " ".join(kernel.name for kernel in KERNELS)
    parser.add_argument("--kernels", default="", help=f"of {names}; all without")
    parser.add_argument("--short", action="store_true", help="only the tests marked core")
    parser.add_argument("--only", default="", choices=("kernel", "service"), help="one kind of boot")
    parser.add_argument("-k", default="", help="as pytest's: only the tests whose names fit")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1, help="machines at a time")
    parser.add_argument("--seconds", type=float, default=600, help="time of one boot")
    parser.add_argument("--shell", default="", metavar="KERNEL", help="a console on a kernel instead")
    return parser.parse_args(words)


def give_up(*_: object) -> None:
    """Told to stop: no machine may stay, and no thread may start another."""
    machine.end_all()
    os._exit(143)


def main(words: Sequence[str]) -> int:
    arguments = parse(words)
    signal.signal(signal.SIGTERM, give_up)
    begin = time.monotonic()
    try:
        return shell(arguments) if arguments.shell else try_all(arguments)
    except VmError as error:
        print(f"tests.vm: {error}", file=sys.stderr)
        return 1
    finally:
        print(f"{time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
