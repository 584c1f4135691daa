"""Attaching a loaded program to what it hooks. Standard library only, as `btf`."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from pathlib import Path
from typing import Final

from bpf.hooks import Variant
from bpf.libbpf import libbpf
from bpf.load import KernelError

PERF_EVENT_OPEN: Final = {"x86_64": 298, "aarch64": 241}
PERF_TYPE_TRACEPOINT: Final = 2
PERF_FLAG_FD_CLOEXEC: Final = 8
PERF_EVENT_IOC_SET_BPF: Final = 0x40042408
PERF_EVENT_IOC_ENABLE: Final = 0x2400
# perf_event_attr as far as config2: type, size, config, four u64 and two u32 unused here, config1, config2.
ATTRIBUTES: Final = struct.Struct("IIQ4QIIQQ")
TRACEFS: Final = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
KPROBE_TYPE: Final = "/sys/bus/event_source/devices/kprobe/type"


def attach(variant: Variant, program: int) -> int:
    """Attach a loaded program; returns the descriptor that keeps it attached. Raises `KernelError`."""
    kind, target, _ = variant
    what = f"cannot attach to {kind} {target}"
    if kind == "tracepoint":
        return _perf_event(program, PERF_TYPE_TRACEPOINT, _tracepoint_id(target, what), 0, what)
    if kind == "kprobe":
        name = ctypes.create_string_buffer(target.encode())
        return _perf_event(program, _number([KPROBE_TYPE], what), 0, ctypes.addressof(name), what)
    link: int = libbpf().bpf_raw_tracepoint_open(target.encode() if kind == "raw_tp" else None, program)
    if link < 0:
        raise KernelError(ctypes.get_errno(), what)
    return link


def _tracepoint_id(target: str, what: str) -> int:
    return _number([f"{root}/events/{target}/id" for root in TRACEFS], what)


def _number(files: list[str], what: str) -> int:
    """The number in the first of these files that can be read."""
    refused = errno.ENOENT
    for file in files:
        try:
            return int(Path(file).read_text())
        except OSError as error:
            refused = error.errno or refused
    raise KernelError(refused, what)


def _perf_event(program: int, event_type: int, config: int, config1: int, what: str) -> int:
    """A perf event that runs the program. Its descriptor is all there is: nothing is left in tracefs."""
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise KernelError(errno.ENOSYS, what)
    attributes = ATTRIBUTES.pack(event_type, ATTRIBUTES.size, config, 0, 0, 0, 0, 0, 0, config1, 0)
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    system_call.restype = ctypes.c_long
    event = system_call(
        ctypes.c_long(number),
        attributes,
        ctypes.c_int(-1),  # of any process
        ctypes.c_int(0),  # a probe fires on every CPU, whichever its event is opened on
        ctypes.c_int(-1),
        ctypes.c_ulong(PERF_FLAG_FD_CLOEXEC),
    )
    if event < 0:
        raise KernelError(ctypes.get_errno(), what)
    try:
        fcntl.ioctl(event, PERF_EVENT_IOC_SET_BPF, program)
        fcntl.ioctl(event, PERF_EVENT_IOC_ENABLE, 0)
    except OSError as error:
        os.close(event)
        raise KernelError(error.errno or errno.EINVAL, what) from error
    return int(event)
