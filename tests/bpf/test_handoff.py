"""The daemon's end, against children that behave in every way one can think of."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from bpf.handoff import SYSTEM_PYTHON, LoadError, interpreters, load
from bpf.objects import Object, cells, twins
from pipeline.health import Unsupported
from pipeline.programs import Verdict

WANTED = Object("/nowhere/probe.bpf.c", [cells("counts", 8)], [twins("sys_enter"), twins("gone")])
ATTACHED = {"name": "sys_enter", "kind": "tp_btf", "attached": True, "error": "", "errno": 0}
MISSED = {"name": "gone", "kind": "", "attached": False, "error": "no such thing", "errno": 2}
ANSWER = {"maps": ["counts"], "programs": [ATTACHED, MISSED]}


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) <= before


def child(folder: Path, body: str) -> str:
    """An `interpreter` that does this instead of compiling; it has `channel`, `request` and `send`."""
    script = folder / "python"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, signal, socket, sys, time\n"
        "channel = socket.socket(fileno=int(sys.argv[2]))\n"
        "request = json.load(sys.stdin)\n"
        "def send(answer, count):\n"
        "    fds = [os.open('/dev/null', os.O_RDONLY) for _ in range(count)]\n"
        "    channel.sendall(json.dumps(answer).encode()) if not fds else "
        "socket.send_fds(channel, [json.dumps(answer).encode()], fds)\n"
        f"{body}\n"
    )
    script.chmod(0o755)
    return str(script)


async def loaded_by(python: str, seconds: int = 10) -> object:
    wanted = Object(WANTED.source, WANTED.maps, WANTED.hooks, seconds=seconds)
    return await load(wanted, (python,), trio.CapacityLimiter(1))


async def test_descriptors_by_name_and_all_closed_in_the_end(tmp_path: Path) -> None:
    python = child(tmp_path, f"send(json.loads({json.dumps(ANSWER)!r}), 3)")
    loaded = await load(WANTED, (python,), trio.CapacityLimiter(1))
    assert list(loaded.maps) == ["counts"]
    assert list(loaded.running) == ["sys_enter"]
    assert [program.verdict for program in loaded.programs] == [Verdict.OK, Verdict.UNSUPPORTED]
    for descriptor in (*loaded.maps.values(), *loaded.running.values()):
        assert not os.get_inheritable(descriptor)
    loaded.close()


async def test_a_long_answer_arrives_whole(tmp_path: Path) -> None:
    body = "send({'error': 'x', 'unsupported': False, 'log': ['y' * 3_000_000]}, 0)"
    with pytest.raises(LoadError, match=r"y{1000}"):
        await loaded_by(child(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("time.sleep(60)", r"probe.bpf.c was not compiled and attached within 1 s"),
        ("channel.close(); time.sleep(60)", r"within 1 s"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"no answer: killed by SIGSEGV"),
        ("sys.exit('out of luck')", r"no answer: out of luck"),
        ("sys.exit(3)", r"no answer: exit code 3"),
        ("channel.sendall(b'what?')", r"gave no answer"),
        (f"send(json.loads({json.dumps(ANSWER)!r}), 2)", r"sent 2 descriptors, not all"),
        (
            "sys.stderr.write('a.c:3:1: error: no such type\\n1 error generated.\\n');"
            "send({'error': 'a.c does not compile', 'unsupported': False, 'log': []}, 0)",
            r"a.c does not compile: a.c:3:1: error: no such type",
        ),
    ],
    ids=["hangs", "closes and hangs", "crashes", "says why", "says nothing", "garbage", "too few", "bad C"],
)
async def test_a_child_that_fails_costs_one_clear_line(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        await loaded_by(child(tmp_path, body), seconds=1 if "sleep" in body else 10)
    assert "\n" not in str(caught.value)


async def test_the_verifiers_last_lines_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    body = "send({'error': 'does not load: EACCES', 'unsupported': False, 'log': ['0: r1', 'R1 invalid']}, 0)"
    with pytest.raises(LoadError, match="does not load: EACCES: R1 invalid"):
        await loaded_by(child(tmp_path, body))
    assert [record.getMessage() for record in caplog.records if "verifier" in record.getMessage()] == [
        "probe.bpf.c: verifier: 0: r1",
        "probe.bpf.c: verifier: R1 invalid",
    ]


async def test_what_this_host_lacks_is_unsupported(tmp_path: Path) -> None:
    body = "send({'error': 'EPERM (needs CAP_BPF)', 'unsupported': True, 'log': []}, 0)"
    with pytest.raises(Unsupported, match="needs CAP_BPF"):
        await loaded_by(child(tmp_path, body))


async def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=f"cannot run {tmp_path}/none for bcc: No such file"):
        await loaded_by(f"{tmp_path}/none")


async def test_the_next_interpreter_is_tried(tmp_path: Path) -> None:
    python = child(tmp_path, f"send(json.loads({json.dumps(ANSWER)!r}), 3)")
    loaded = await load(WANTED, (f"{tmp_path}/none", python), trio.CapacityLimiter(1))
    loaded.close()


async def test_cancelling_ends_the_child(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    python = child(tmp_path, f"open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loaded_by, python)
        with trio.fail_after(10):
            while not started.exists() or not started.read_text():
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert not Path(f"/proc/{started.read_text()}").exists()


async def test_no_more_children_at_a_time_than_the_limiter_allows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    body = (
        f"log = open({str(log)!r}, 'a', 1); log.write('+'); log.flush(); time.sleep(0.1); log.write('-');"
        f"log.flush(); send(json.loads({json.dumps(ANSWER)!r}), 3)"
    )
    python = child(tmp_path, body)
    limiter = trio.CapacityLimiter(1)

    async def one() -> None:
        (await load(WANTED, (python,), limiter)).close()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(one)
    assert log.read_text() == "+-" * 3


def test_which_interpreters_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreters("/opt/python") == ("/opt/python",)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert interpreters("") == (SYSTEM_PYTHON,)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert interpreters("")[0] == sys.executable
