"""The daemon's end of the compile child: starts it, waits, but not for ever, and takes what it made."""

import array
import importlib.util
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import trio

from bpf.objects import HERE, Object
from pipeline.health import Unsupported
from pipeline.programs import Program

log = logging.getLogger(__name__)

CHILD: Final = HERE / "compile.py"
SYSTEM_PYTHON: Final = "/usr/bin/python3"
ANCILLARY_BYTES: Final = socket.CMSG_LEN(253 * 4)  # as many descriptors as the kernel passes at once


class LoadError(Exception):
    """An object could not be brought into the kernel; one line, and it may go better another time.

    Attributes:
        programs: those that are not attached, when it came that far.
    """

    def __init__(self, message: str, programs: tuple[Program, ...] = ()) -> None:
        super().__init__(message)
        self.programs = programs


class Loaded:
    """What one object has in the kernel: it stays there as long as this is open.

    Attributes:
        maps: descriptors by name.
        programs: each hook's program, attached or not.
        running: descriptors of the attached programs, by name.
    """

    def __init__(
        self,
        maps: dict[str, int],
        programs: tuple[Program, ...],
        running: dict[str, int],
        links: Iterable[int],
    ) -> None:
        self.maps = maps
        self.programs = programs
        self.running = running
        self._links = list(links)

    def close(self) -> None:
        """Detach and give back everything; views of mmapped maps must be gone for the maps to go too."""
        for descriptor in (*self._links, *self.running.values(), *self.maps.values()):
            os.close(descriptor)
        self._links.clear()
        self.running.clear()
        self.maps.clear()


def interpreters(configured: str) -> tuple[str, ...]:
    """Interpreters to try for bcc, best first; just the configured one if there is one."""
    if configured:
        return (configured,)
    own = (sys.executable,) if importlib.util.find_spec("bcc") else ()
    return tuple(dict.fromkeys((*own, SYSTEM_PYTHON)))


async def load(wanted: Object, pythons: Sequence[str], limiter: trio.CapacityLimiter) -> Loaded:
    """Compile, load and attach in a child of its own; at most as many at a time as the limiter has tokens.

    Raises:
        Unsupported: this host lacks bcc, BTF, a right or a type.
        LoadError: anything else, a hanging or crashing compiler included.
    """
    async with limiter:
        for python in pythons[:-1]:
            try:
                return await _load(wanted, python)
            except Unsupported as reason:
                log.debug("%s: %s", wanted.name, reason)
        return await _load(wanted, pythons[-1])


async def _load(wanted: Object, python: str) -> Loaded:
    received = bytearray()
    descriptors: list[int] = []
    try:
        said = await _converse(wanted, python, received, descriptors)
        return _understand(wanted, bytes(received), descriptors, said)
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


async def _converse(wanted: Object, python: str, received: bytearray, descriptors: list[int]) -> str:
    """Run the child to its end while taking in what it sends; returns how it ended, in words."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    said: str | None = None
    missing: OSError | None = None
    with ours, theirs, trio.move_on_after(wanted.seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_receive, ours, received, descriptors)
            try:
                said = await _run(python, msgspec.json.encode(wanted), theirs)
            except OSError as error:
                missing = error
            theirs.close()  # now the end of what it sent is the end
    if missing is not None:
        raise Unsupported(f"cannot run {python} for bcc: {missing.strerror}")
    if said is None:
        raise LoadError(f"{wanted.name} was not compiled and attached within {wanted.seconds} s")
    return said


async def _run(python: str, request: bytes, channel: socket.socket) -> str:
    child = await trio.run_process(
        [python, str(CHILD), str(channel.fileno())],
        stdin=request,
        capture_stdout=True,  # the compiler must not write into the daemon's output
        capture_stderr=True,
        check=False,
        pass_fds=(channel.fileno(),),
        deliver_cancel=_kill,
    )
    return _ending(child.returncode, child.stderr.decode(errors="replace"))


async def _kill(process: trio.Process) -> None:
    process.kill()


async def _receive(ours: socket.socket, received: bytearray, descriptors: list[int]) -> None:
    """Bytes and descriptors, until the other end closes."""
    while True:
        await trio.lowlevel.wait_readable(ours)
        # Not socket.recv_fds, which forgets the flag: another child must not inherit these.
        data, passed, _, _ = ours.recvmsg(1 << 16, ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        for _, _, numbers in passed:
            descriptors += array.array("i", numbers)
        if not data:
            return
        received += data


def _ending(returncode: int, stderr: str) -> str:
    """The compiler's first complaint, or how the child died, or the last thing it said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    complaint = next((line for line in lines if "error:" in line), None)
    if complaint:
        return complaint
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return lines[-1] if lines else f"exit code {returncode}"


def _understand(wanted: Object, received: bytes, descriptors: list[int], said: str) -> Loaded:
    """The child's answer as a `Loaded`. On an exception the descriptors are still the caller's."""
    try:
        answer: dict[str, Any] = msgspec.json.decode(received, type=dict[str, Any])
    except msgspec.DecodeError:
        raise LoadError(f"the compile child of {wanted.name} gave no answer: {said}") from None
    if "error" in answer:
        for line in answer["log"]:
            log.error("%s: verifier: %s", wanted.name, line)
        if answer["unsupported"]:
            raise Unsupported(answer["error"])
        why = answer["log"][-1] if answer["log"] else "" if ": " in answer["error"] else said
        raise LoadError(f"{answer['error']}{': ' + why if why else ''}")
    programs = tuple(msgspec.convert(program, Program) for program in answer["programs"])
    attached = [program.name for program in programs if program.attached]
    maps = len(answer["maps"])
    if len(descriptors) != maps + 2 * len(attached):
        raise LoadError(f"the compile child of {wanted.name} sent {len(descriptors)} descriptors, not all")
    return Loaded(
        dict(zip(answer["maps"], descriptors[:maps], strict=True)),
        programs,
        dict(zip(attached, descriptors[maps::2], strict=True)),
        descriptors[maps + 1 :: 2],
    )
