"""Compile, load, attach, hand over, and what happens when one of these goes wrong, on the running kernel."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

from bpf import syscall
from bpf.handoff import LoadError, load
from bpf.libbpf import libbpf
from bpf.maps import Mapped
from bpf.objects import Hook, Map, Object, cells, twins
from bpf.ring import Ring
from bpf.room import Room
from config.model import Bpf, Config
from pipeline.health import Unsupported
from pipeline.histogram import bounds
from pipeline.histogram import index as bucket
from pipeline.programs import Verdict, rollup
from pipeline.records import HISTOGRAM_BUCKETS
from pipeline.source import Roots
from tests.kernel.world import bring, held_by, in_kernel, loaded, until

pytestmark = pytest.mark.kernel

SOURCE = Path(__file__).with_name("probes.bpf.c")
ROOT = Path(__file__).resolve().parents[2]
GONE: Hook = (("tp_btf", "no_such_event", "gone"), ("raw_tp", "no_such_event", "gone"))
RING_BYTES = 4096


def probe(part: str, maps: Sequence[Map] = (), hooks: Sequence[Hook] = (twins("sys_enter"),)) -> Object:
    return Object(str(SOURCE), maps, hooks, structs=("task_struct",), defines={f"PART_{part}": 1})


@pytest.fixture(autouse=True)
def nothing_stays_in_the_kernel() -> Iterator[None]:
    programs, maps = in_kernel()
    descriptors = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) == descriptors
    until(lambda: in_kernel()[0] <= programs and in_kernel()[1] <= maps)


@pytest.mark.core
async def test_maps_are_read_without_system_calls_and_programs_are_named() -> None:
    wanted = probe("COUNT", [cells("counts", 8)])
    async with loaded(wanted) as found:
        (program,) = found.programs
        assert (program.name, program.attached, program.kind) == ("sys_enter", True, "tp_btf")
        mapped = Mapped(wanted.maps, found.maps)
        before = int(mapped.cells("counts")[0])
        os.getppid()
        assert int(mapped.cells("counts")[0]) > before
        mapped.close()


@pytest.mark.core
async def test_a_tracepoint_that_is_gone_costs_its_own_program_only() -> None:
    async with loaded(probe("COUNT", [cells("counts", 8)], [twins("sys_enter"), GONE])) as found:
        there, gone = found.programs
        assert there.verdict is Verdict.OK
        assert gone.verdict is Verdict.UNSUPPORTED
        assert gone.error == "cannot attach to raw_tp no_such_event: ENOENT (No such file or directory)"
        assert rollup(found.programs) == "unsupported"


@pytest.mark.usefixtures("tracefs")
async def test_a_classic_tracepoint_serves_where_the_twins_do_not() -> None:
    classic = ("tracepoint", "raw_syscalls/sys_enter", "sys_enter_classic")
    wanted = probe("COUNT", [cells("counts", 8)], [(*GONE, classic)])
    async with loaded(wanted) as found:
        assert found.programs[0].kind == "tracepoint"
        mapped = Mapped(wanted.maps, found.maps)
        until(lambda: int(mapped.cells("counts")[0]) > 0)
        mapped.close()


async def test_what_no_kind_of_hook_finds_is_unsupported() -> None:
    hook = (*GONE, ("fentry", "no_such_function", "gone"), ("kprobe", "no_such_function", "gone"))
    async with loaded(probe("COUNT", [cells("counts", 8)], [hook])) as found:
        (program,) = found.programs
        assert program.verdict is Verdict.UNSUPPORTED
        assert program.error == "cannot attach to kprobe no_such_function: ENOENT (No such file or directory)"


async def test_a_program_that_does_not_verify(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        LoadError, match="program sys_enter does not load as tp_btf sys_enter: EACCES"
    ) as caught:
        await bring(probe("UNVERIFIABLE"))
    assert "\n" not in str(caught.value)
    assert "invalid mem access" in caplog.text


async def test_a_program_that_does_not_compile() -> None:
    with pytest.raises(LoadError, match=r"probes.bpf.c:\d+:\d+: error: use of undeclared identifier"):
        await bring(probe("BAD_C"))


async def test_a_function_that_is_not_there() -> None:
    with pytest.raises(LoadError, match="the program text has no function sys_exit"):
        await bring(probe("COUNT", [cells("counts", 8)], [twins("sys_exit")]))


async def test_a_struct_and_a_field_that_are_not_there() -> None:
    wanted = Object(str(SOURCE), (), (), structs=("no_such_struct",))
    with pytest.raises(Unsupported, match="BTF has no struct no_such_struct"):
        await bring(wanted)
    wanted = Object(str(SOURCE), (), (), fields={"X": ("task_struct", ("new_name", "old_name"))})
    with pytest.raises(Unsupported, match="struct task_struct has no field new_name or old_name"):
        await bring(wanted)


async def test_no_btf() -> None:
    wanted = Object(str(SOURCE), (), (), btf="/nowhere")
    with pytest.raises(Unsupported, match="no kernel BTF: /nowhere/vmlinux: No such file"):
        await bring(wanted)


async def test_an_interpreter_without_bcc() -> None:
    with pytest.raises(Unsupported, match="cannot import bcc"):
        await load(probe("COUNT"), (bccless(),), trio.CapacityLimiter(1))


async def test_an_interpreter_with_another_bcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bcc.py").write_text("")
    python = bccless()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Unsupported, match="is not the BPF Compiler Collection"):
        await load(probe("COUNT"), (python,), trio.CapacityLimiter(1))


def bccless() -> str:
    if subprocess.run([sys.executable, "-c", "import bcc"], capture_output=True).returncode == 0:
        pytest.skip("this interpreter has bcc")
    return sys.executable


@pytest.mark.core
async def test_a_full_ring_is_counted_and_read_in_order() -> None:
    maps = [
        cells("wanted", 8, [os.getpid()]),
        cells("lost", 8),
        Map("records", "ringbuf", RING_BYTES, key_size=0, value_size=0),
    ]
    wanted = probe("RING", maps)
    async with loaded(wanted) as found:
        ring = Ring.open(found.maps["records"], RING_BYTES)
        mapped = Mapped(wanted.maps, found.maps)
        with trio.fail_after(5):
            await ring.wait()
        list(ring.drain())
        calls = 3 * RING_BYTES // 32
        number = 110  # getppid on x86_64
        for _ in range(calls):
            os.getppid()
        drained = [int.from_bytes(record[:8], "little") for record in ring.drain()]
        assert len(drained) <= RING_BYTES // 32
        assert drained.count(number) > 0 or os.uname().machine != "x86_64"
        assert int(mapped.cells("lost")[0]) >= calls - RING_BYTES // 32
        os.getppid()
        assert len(list(ring.drain())) > 0, "there is room again"
        ring.close()
        mapped.close()


class TestRun(ctypes.Structure):
    """`bpf_test_run_opts`."""

    __test__ = False
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_void_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_void_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


async def test_the_bucket_formula_as_bpf_at_every_boundary() -> None:
    hook: Hook = (("raw_tp", "cgroup_mkdir", "cgroup_mkdir"),)
    async with loaded(probe("HISTOGRAM", (), (hook,))) as found:
        program = found.running["cgroup_mkdir"]
        for index in range(HISTOGRAM_BUCKETS):
            for value in bounds(index):
                argument = ctypes.c_uint64(value)
                run = TestRun(sz=ctypes.sizeof(TestRun), ctx_size_in=8)
                run.ctx_in = ctypes.addressof(argument)
                assert libbpf().bpf_prog_test_run_opts(program, ctypes.byref(run)) == 0
                assert run.retval == bucket(value) == index


DAEMON = """
import sys, trio
from bpf import syscall
from bpf.room import Room
from config.model import Bpf, Config
from pipeline.source import Roots

async def main():
    room = Room((syscall.FAMILY,), Config(), (syscall.COUNTS, syscall.LATENCY))
    for part in syscall.FAMILY.parts:
        try:
            prepared = await room.bind(part.sampler).prepare(Roots())
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        else:
            print([program.kind for program in prepared.programs], len(prepared.source.sample()), flush=True)
    sys.stdin.read()

trio.run(main)
"""


def daemon(*wrapper: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*wrapper, sys.executable, "-c", DAEMON]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )


@pytest.mark.core
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_daemon_leaves_nothing_behind(number: signal.Signals) -> None:
    with daemon() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "['tp_btf', 'tp_btf'] 2\n"
        assert process.stdout.readline() == "['tp_btf', 'tp_btf'] 1\n"
        programs, maps = held_by(process.pid, "prog_id"), held_by(process.pid, "map_id")
        assert len(programs) == 3
        assert len(maps) == 12
        assert programs <= in_kernel()[0]
        assert maps <= in_kernel()[1]
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
        assert "LLVM" not in mapped
        assert "libbcc" not in mapped
        process.send_signal(number)
    until(lambda: not in_kernel()[0] & programs and not in_kernel()[1] & maps)


@pytest.mark.core
def test_without_rights_each_sampler_says_what_it_needs() -> None:
    with daemon("setpriv", "--bounding-set=-all", "--inh-caps=-all") as process:
        out, _ = process.communicate("")
    assert out.count("\n") == 2
    for line in out.splitlines():
        assert line.startswith("Unsupported: ")
        assert "EPERM (needs CAP_PERFMON, CAP_BPF)" in line


def test_two_capabilities_are_enough() -> None:
    with daemon("setpriv", "--bounding-set=-all,+bpf,+perfmon", "--inh-caps=-all") as process:
        out, _ = process.communicate("")
    assert out == "['tp_btf', 'tp_btf'] 2\n['tp_btf', 'tp_btf'] 1\n"


async def test_a_configured_interpreter_that_does_not_exist() -> None:
    room = Room((syscall.FAMILY,), Config(bpf=Bpf(python="/nowhere/python")), (syscall.COUNTS,))
    prepare = room.bind(syscall.FAMILY.parts[0].sampler).prepare
    assert prepare is not None
    with pytest.raises(Unsupported, match="cannot run /nowhere/python for bcc: No such file or directory"):
        await prepare(Roots())


async def test_run_time_statistics_while_the_kernel_keeps_them() -> None:
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    room = Room((syscall.FAMILY,), Config(), (syscall.COUNTS,))
    prepare = room.bind(syscall.FAMILY.parts[0].sampler).prepare
    assert prepare is not None
    switch.write_text("1")
    try:
        source = (await prepare(Roots())).source
        os.getppid()
        *_, stats = source.sample()
        source.close()
    finally:
        switch.write_text(before)
    assert [metric.name for metric in stats.schema.group.metrics] == [
        "rezolus_bpf_run_count",
        "rezolus_bpf_run_time",
    ]
    count, time = stats.values[0].tolist()
    assert 0 < count < time
