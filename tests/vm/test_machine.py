"""A boot with an emulator that is a shell script, and the disks."""

import sys
import tarfile
from pathlib import Path

from tests.vm.kernels import Fetched
from tests.vm.machine import boot, command_line, empty_disk, interactive, source_disk, unpack


def fake(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


def test_one_that_powers_off_in_time(tmp_path: Path) -> None:
    ended = boot(fake(r"printf 'hello\r\n'"), tmp_path / "log", 10)
    assert (ended.fault, ended.console) == ("", "hello\n")


def test_one_that_hangs_is_ended_and_what_it_said_is_kept(tmp_path: Path) -> None:
    ended = boot(fake("echo last words; exec sleep 60"), tmp_path / "log", 0.5)
    assert ended.fault == "hangs, ended after 0 s"
    assert ended.tail() == "last words"
    assert ended.seconds < 30


def test_a_panic_is_a_fault_although_the_emulator_ends_well(tmp_path: Path) -> None:
    text = "echo '[ 1.2] Kernel panic - not syncing: Attempted to kill init!'"
    assert boot(fake(text), tmp_path / "log", 10).fault.startswith("Kernel panic - not syncing: Attempted")


def test_an_emulator_that_does_not_start(tmp_path: Path) -> None:
    assert boot(fake("exit 3"), tmp_path / "log", 10).fault == "the emulator ended with exit code 3"
    ended = boot([str(tmp_path / "none")], tmp_path / "log", 10)
    assert ended.fault == f"cannot run {tmp_path / 'none'}: No such file or directory"


def test_the_checkout_the_job_the_wheel_and_the_modules_travel_as_a_tar_archive(tmp_path: Path) -> None:
    modules, wheel = tmp_path / "6.1.0", tmp_path / "some.whl"
    for name in ("kernel/fs/xfs/xfs.ko", "kernel/drivers/gpu/large.ko", "modules.order"):
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text("")
    wheel.write_text("")
    source_disk(tmp_path / "disk", "echo the job\n", wheel, modules)
    with tarfile.open(tmp_path / "disk") as archive:
        names = set(archive.getnames())
        job = archive.extractfile("src/job")
        assert job is not None
        assert job.read() == b"echo the job\n"
    assert {"src/pyproject.toml", "src/tests/vm/guest/vm-start", "src/dist/some.whl"} <= names
    assert {name for name in names if name.startswith("usr")} == {
        "usr/lib/modules/6.1.0/kernel/fs/xfs/xfs.ko",
        "usr/lib/modules/6.1.0/modules.order",
    }


def test_what_comes_back(tmp_path: Path) -> None:
    disk, folder = tmp_path / "disk", tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "junit.xml").write_text("<testsuites />")
    empty_disk(disk)
    assert unpack(disk, folder) == [], "nothing, if the guest did not come that far"
    with tarfile.open(tmp_path / "archive", "w") as archive:
        archive.add(tmp_path / "junit.xml", "./junit.xml")
    with disk.open("r+b") as file:  # as tar writes onto a disk: zeros follow
        file.write((tmp_path / "archive").read_bytes())
    assert [path.name for path in unpack(disk, folder)] == ["junit.xml"]


def test_the_command_line() -> None:
    kernel = Fetched("6.1", "6.1.0-1-cloud-amd64", Path("/k/vmlinuz"), Path("/k/modules"))
    words = command_line(kernel, Path("/root.img"), Path("/source"), Path("/results"), "/sbin/init")
    line = " ".join(words)
    assert "-accel tcg" in line
    assert "init=/sbin/init" in line
    assert "file=/root.img,if=none,id=root,format=raw,snapshot=on" in line, "many may use it at once"
    assert "-serial mon:stdio" in " ".join(interactive(words))
    assert sys.executable not in line
