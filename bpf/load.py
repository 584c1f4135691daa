"""Maps, programs and their attachments, made through libbpf. Standard library only, as `btf`."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bpf.btf import FUNC, TYPEDEF, VMLINUX, Btf
from bpf.hooks import Variant
from bpf.libbpf import libbpf

MAP_TYPES: Final = {"hash": 1, "array": 2, "queue": 22, "ringbuf": 27}
MMAPABLE: Final = 1 << 10

RAW_TP, ENTRY, EXIT = 23, 24, 25
# Program type and expected attach type by kind of hook.
PROGRAM_TYPES: Final = {
    "tp_btf": (26, RAW_TP),
    "fentry": (26, ENTRY),
    "fexit": (26, EXIT),
    "raw_tp": (17, 0),
    "tracepoint": (5, 0),
    "kprobe": (2, 0),
}
LOG_BYTES: Final = 1 << 22
LOG_TAIL_LINES: Final = 6
CAPABILITIES: Final = {"CAP_PERFMON": 38, "CAP_BPF": 39}
CAP_SYS_ADMIN: Final = 21


class MapOptions(ctypes.Structure):
    """`bpf_map_create_opts`."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        *(
            (name, ctypes.c_uint32)
            for name in ("btf_fd", "key_type", "value_type", "vmlinux_type", "inner_fd")
        ),
        ("map_flags", ctypes.c_uint32),
        ("map_extra", ctypes.c_uint64),
        ("numa_node", ctypes.c_uint32),
        ("map_ifindex", ctypes.c_uint32),
    )


class ProgramOptions(ctypes.Structure):
    """`bpf_prog_load_opts`."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("attempts", ctypes.c_int),
        ("expected_attach_type", ctypes.c_int),
        *((name, ctypes.c_uint32) for name in ("btf_fd", "flags", "ifindex", "kern_version")),
        *((name, ctypes.c_uint32) for name in ("attach_btf_id", "attach_prog_fd", "attach_btf_obj_fd")),
        ("fd_array", ctypes.c_void_p),
        *(
            (name, ctypes.c_void_p if name.endswith("info") else ctypes.c_uint32)
            for name in ("func_info", "func_count", "func_size", "line_info", "line_count", "line_size")
        ),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log_buf", ctypes.c_void_p),
    )


class KernelError(Exception):
    """The kernel refused something; `errno` says how, the message is one line with names in it."""

    def __init__(self, number: int, what: str, log: Sequence[str] = ()) -> None:
        name = errno.errorcode.get(number, str(number))
        lacking = missing_capabilities() if number == errno.EPERM else []
        why = f"{name} ({'needs ' + ', '.join(lacking) if lacking else os.strerror(number)})"
        super().__init__(f"{what}: {why}")
        self.errno = number
        self.log = list(log)


def missing_capabilities(status: Path = Path("/proc/self/status")) -> list[str]:
    """What this process would need for BPF and does not have in effect."""
    line = next(line for line in status.read_text().splitlines() if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    if held >> CAP_SYS_ADMIN & 1:
        return []
    return [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]


def create_map(wanted: Mapping[str, Any]) -> int:
    """A map as the request describes it, filled; returns its descriptor. Raises `KernelError`."""
    lib = libbpf()
    options = MapOptions(sz=ctypes.sizeof(MapOptions), map_flags=MMAPABLE if wanted["mmap"] else 0)
    descriptor: int = lib.bpf_map_create(
        MAP_TYPES[wanted["type"]],
        wanted["name"][:15].encode(),
        ctypes.c_uint32(wanted["key_size"]),
        ctypes.c_uint32(wanted["value_size"]),
        ctypes.c_uint32(wanted["entries"]),
        ctypes.byref(options),
    )
    if descriptor < 0:
        raise KernelError(ctypes.get_errno(), f"cannot create map {wanted['name']}")
    if wanted["fill"]:
        _fill(descriptor, wanted)
    return descriptor


def _fill(descriptor: int, wanted: Mapping[str, Any]) -> None:
    """Write the initial values: into the pages of an mmapped array of u64, or pushed onto a queue of u32."""
    values = wanted["fill"]
    if wanted["mmap"]:
        with mmap.mmap(descriptor, 8 * wanted["entries"]) as pages:
            pages[: 8 * len(values)] = array("Q", values).tobytes()
        return
    update = libbpf().bpf_map_update_elem
    update.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
    for value in values:
        if update(descriptor, None, struct.pack("I", value), 0):
            raise KernelError(ctypes.get_errno(), f"cannot fill map {wanted['name']}")


def load_program(variant: Variant, code: tuple[int, int], btf: Btf) -> int:
    """Load a program for one kind of hook; returns its descriptor.

    Args:
        variant: its kind, target and C function.
        code: address and byte count of its instructions.
        btf: where a typed target is looked up.

    Raises:
        KernelError: with the verifier's last lines when it was the verifier.
    """
    kind, target, function = variant
    program_type, attach_type = PROGRAM_TYPES[kind]
    options = ProgramOptions(sz=ctypes.sizeof(ProgramOptions), expected_attach_type=attach_type)
    if program_type == PROGRAM_TYPES["tp_btf"][0]:
        options.attach_btf_id, options.attach_btf_obj_fd = _target(kind, target, btf)
    load = libbpf().bpf_prog_load
    load.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]
    arguments = (program_type, function[:15].encode(), b"GPL", code[0], code[1] // 8)
    descriptor: int = load(*arguments, ctypes.byref(options))
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    # Only now with a log: writing one makes every load slower.
    log = ctypes.create_string_buffer(LOG_BYTES)
    options.log_level, options.log_size, options.log_buf = 1, len(log), ctypes.cast(log, ctypes.c_void_p)
    if (descriptor := load(*arguments, ctypes.byref(options))) >= 0:
        return descriptor
    lines = [line for line in log.value.decode(errors="replace").splitlines() if line.strip()]
    raise KernelError(number, f"program {function} does not load as {kind} {target}", lines[-LOG_TAIL_LINES:])


def _target(kind: str, target: str, btf: Btf) -> tuple[int, int]:
    """BTF type id of a typed target, and the descriptor of its module's BTF, 0 for vmlinux."""
    found = btf.find(f"btf_trace_{target}", TYPEDEF) if kind == "tp_btf" else btf.find(target, FUNC)
    if found is None:
        raise KernelError(errno.ENOENT, f"no BTF describes {target}")
    module, type_id = found
    return type_id, 0 if module == VMLINUX else module_btf(module)


def module_btf(module: str) -> int:
    """Descriptor of the kernel's BTF object of a module. Raises `KernelError`."""
    lib = libbpf()
    name = ctypes.create_string_buffer(64)
    btf_id = ctypes.c_uint32(0)
    while lib.bpf_btf_get_next_id(btf_id, ctypes.byref(btf_id)) == 0:
        descriptor: int = lib.bpf_btf_get_fd_by_id(btf_id)
        if descriptor < 0:
            continue
        # struct bpf_btf_info: u64 btf; u32 size, id; u64 name; u32 name length, of the kernel's own.
        info = ctypes.create_string_buffer(
            struct.pack("QIIQII", 0, 0, 0, ctypes.addressof(name), len(name), 0), 32
        )
        size = ctypes.c_uint32(len(info))
        if (
            not lib.bpf_obj_get_info_by_fd(descriptor, info, ctypes.byref(size))
            and name.value == module.encode()
        ):
            return descriptor
        os.close(descriptor)
    raise KernelError(ctypes.get_errno(), f"cannot open the BTF of module {module}")
