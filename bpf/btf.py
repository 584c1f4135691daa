"""The kernel's own description of its types (BTF), read through libbpf.

Needs the standard library and libbpf only: the compile child imports it under whatever interpreter has bcc.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from bpf.libbpf import libbpf

VMLINUX: Final = "vmlinux"

PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF, FUNC, FUNC_PROTO, ENUM64 = 2, 3, 4, 5, 6, 8, 12, 13, 19
# What may stand between a name and the type it means: typedef, volatile, const, restrict, type tag.
MODIFIERS: Final = (TYPEDEF, 9, 10, 11, 18)


class Types(Protocol):
    """What the choice of a hook asks of the kernel's types; a fake in tests answers the same questions."""

    def tracepoint_home(self, name: str) -> str | None:
        """`vmlinux` or the module that has the tracepoint; None when no BTF describes it."""

    def has_function(self, name: str) -> bool:
        """Whether fentry can find the function."""

    def enum_value(self, enum: str, name: str) -> int | None:
        """The value of an enumerator, None when there is no such enumerator."""


class Btf:
    """The types of a running kernel and its modules, or of blobs laid out in a folder the same way.

    Args:
        folder: holds `vmlinux` and a file for each module, as `/sys/kernel/btf` does.

    Raises:
        OSError: `vmlinux` is not there, may not be read, or is no BTF; or there is no libbpf.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lib = libbpf()
        self._raw = (folder / VMLINUX).read_bytes()
        self._base = self._lib.btf__new(self._raw, len(self._raw))
        if not self._base:
            raise OSError(ctypes.get_errno(), "not the BTF of a kernel", str(folder / VMLINUX))
        self._loaded: dict[str, int] = {VMLINUX: self._base}

    def close(self) -> None:
        for handle in reversed(list(self._loaded.values())):  # modules refer to vmlinux, so they go first
            self._lib.btf__free(handle)
        self._loaded.clear()

    # Where a name is defined --------------------------------------------------------------------------

    def _modules(self, name: str) -> Iterator[str]:
        """Modules that may define a type of this name.

        A module's strings are deduplicated against vmlinux's: one that lacks the string can define the type
        only if vmlinux has the string. Asking every module costs milliseconds each, a byte search does not.
        """
        wanted = b"\0" + name.encode() + b"\0"
        everywhere = wanted in self._raw
        for path in sorted(self._folder.iterdir()):
            try:
                if path.name != VMLINUX and (everywhere or wanted in path.read_bytes()):
                    yield path.name
            except OSError:  # unloaded this instant
                continue

    def _open(self, module: str) -> int | None:
        if module not in self._loaded:
            path = str(self._folder / module).encode()
            handle = self._lib.btf__parse_raw_split(path, self._base)
            if not handle:
                return None
            self._loaded[module] = handle
        return self._loaded[module]

    def find(self, name: str, kind: int) -> tuple[str, int] | None:
        """Module and type id of the type with this name and kind, vmlinux before any module."""
        found: int = self._lib.btf__find_by_name_kind(self._base, name.encode(), kind)
        if found > 0:
            return VMLINUX, found
        for module in self._modules(name):
            handle = self._open(module)
            if handle and (found := self._lib.btf__find_by_name_kind(handle, name.encode(), kind)) > 0:
                return module, found
        return None

    # Walking a type -------------------------------------------------------------------------------------

    def _words(self, module: str, type_id: int) -> tuple[int, int, int, ctypes._Pointer[ctypes.c_uint32]]:
        """Kind, length of what follows, size or referred type, and the words themselves."""
        words = self._lib.btf__type_by_id(self._loaded[module], type_id)
        return words[1] >> 24 & 31, words[1] & 0xFFFF, words[2], words

    def _name(self, module: str, offset: int) -> str:
        return (self._lib.btf__name_by_offset(self._loaded[module], offset) or b"").decode()

    def _plain(self, module: str, type_id: int) -> int:
        """The type behind typedefs and qualifiers."""
        kind, _, referred, _ = self._words(module, type_id)
        while kind in MODIFIERS:
            type_id = referred
            kind, _, referred, _ = self._words(module, type_id)
        return type_id

    def _field(self, module: str, type_id: int, field: str) -> int | None:
        """Type id of a member, looked for inside anonymous structs and unions as C does."""
        kind, count, _, words = self._words(module, type_id)
        if kind not in (STRUCT, UNION):
            return None
        for at in range(3, 3 + 3 * count, 3):
            name, member = self._name(module, words[at]), int(words[at + 1])
            if name == field:
                return member
            inner = None if name else self._field(module, self._plain(module, member), field)
            if inner is not None:
                return inner
        return None

    # Questions --------------------------------------------------------------------------------------------

    def tracepoint_home(self, name: str) -> str | None:
        """`vmlinux` or the module whose BTF has the tracepoint; None when no BTF describes it."""
        found = self.find(f"btf_trace_{name}", TYPEDEF)
        return found and found[0]

    def tracepoint_args(self, name: str) -> int | None:
        """How many arguments a probe sees: the prototype's leading context does not count."""
        found = self.find(f"btf_trace_{name}", TYPEDEF)
        if found is None:
            return None
        module, type_id = found
        kind, _, referred, _ = self._words(module, self._plain(module, type_id))
        if kind != PTR:
            return None
        kind, count, _, _ = self._words(module, self._plain(module, referred))
        return count - 1 if kind == FUNC_PROTO and count else None

    def has_function(self, name: str) -> bool:
        return self.find(name, FUNC) is not None

    def has_parameter(self, function: str, parameter: str) -> bool:
        """Whether a function has a parameter of this name, which may tell its unit."""
        found = self.find(function, FUNC)
        if found is None:
            return False
        module, type_id = found
        _, count, _, words = self._words(module, self._words(module, type_id)[2])
        return parameter in {self._name(module, words[3 + 2 * at]) for at in range(count)}

    def has_struct(self, name: str) -> bool:
        return self.find(name, STRUCT) is not None

    def has_field(self, struct: str, field: str) -> bool:
        found = self.find(struct, STRUCT)
        return found is not None and self._field(*found, field) is not None

    def field_size(self, struct: str, field: str) -> int | None:
        """Size of a member in bytes, None when the struct or the member is missing."""
        found = self.find(struct, STRUCT)
        member = found and self._field(*found, field)
        if not found or not member:
            return None
        size: int = self._lib.btf__resolve_size(self._loaded[found[0]], member)
        return size if size >= 0 else None

    def first_field(self, struct: str, names: Sequence[str]) -> str | None:
        """Which of a field's names, newest first, this kernel uses; a dotted one goes by its first part."""
        return next((name for name in names if self.has_field(struct, name.split(".")[0])), None)

    def enum_value(self, enum: str, name: str) -> int | None:
        """The value of an enumerator, None when the enum or the enumerator is missing."""
        for wanted, stride in ((ENUM, 2), (ENUM64, 3)):
            if found := self.find(enum, wanted):
                module, type_id = found
                _, count, _, words = self._words(module, type_id)
                for at in range(3, 3 + stride * count, stride):
                    if self._name(module, words[at]) == name:
                        return ctypes.c_int32(words[at + 1]).value if stride == 2 else words[at + 1]
        return None

    # C text -----------------------------------------------------------------------------------------------

    def c_types(self, structs: Sequence[str]) -> str:
        """C definitions of these structs and all they embed, each once, in an order that compiles.

        Raises:
            LookupError: naming the structs this kernel does not have.
        """
        found = {struct: self.find(struct, STRUCT) for struct in structs}
        missing = [struct for struct, where in found.items() if where is None]
        if missing:
            raise LookupError(f"this kernel's BTF has no struct {', '.join(missing)}")
        where = [pair for pair in found.values() if pair]
        # A module's dump can say vmlinux's types too, but not those of a second module.
        modules = {module for module, _ in where} - {VMLINUX}
        if len(modules) > 1:
            raise LookupError(f"types of several modules at once: {', '.join(sorted(modules))}")
        return self._dump(modules.pop() if modules else VMLINUX, [type_id for _, type_id in where])

    def _dump(self, module: str, type_ids: Sequence[int]) -> str:
        libc = ctypes.CDLL(None)
        libc.vsnprintf.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p]
        buffer = ctypes.create_string_buffer(1 << 16)
        pieces: list[bytes] = []

        def emit(_context: int, form: bytes, arguments: int) -> None:
            length = libc.vsnprintf(buffer, len(buffer), form, arguments)
            pieces.append(buffer.raw[: min(length, len(buffer) - 1)])

        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(emit)
        dump = self._lib.btf_dump__new(self._loaded[module], callback, None, None)
        if not dump:
            raise OSError(ctypes.get_errno(), f"cannot dump types: {os.strerror(ctypes.get_errno())}")
        try:
            for type_id in type_ids:
                self._lib.btf_dump__dump_type(dump, type_id)
        finally:
            self._lib.btf_dump__free(dump)
        return b"".join(pieces).decode()
