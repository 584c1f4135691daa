"""Small BTF blobs made by hand, base and split."""

import struct

INT, PTR, STRUCT, UNION, ENUM, TYPEDEF, CONST, FUNC, FUNC_PROTO, ENUM64 = 1, 2, 4, 5, 6, 8, 10, 12, 13, 19


class Blob:
    """Types in the order they are added; each addition returns its type id.

    Args:
        base: what a split blob continues: ids and string offsets go on where the base ends.
    """

    def __init__(self, base: "Blob | None" = None) -> None:
        self._types = bytearray()
        self._strings = bytearray(b"" if base else b"\0")
        self._first_string = base.string_end if base else 0
        self.next_id: int = base.next_id if base else 1

    @property
    def string_end(self) -> int:
        return self._first_string + len(self._strings)

    def _name(self, text: str) -> int:
        if not text:
            return 0
        offset = self.string_end
        self._strings += text.encode() + b"\0"
        return offset

    def add(self, kind: int, name: str = "", size: int = 0, rest: bytes = b"", count: int = 0) -> int:
        self._types += struct.pack("III", self._name(name), kind << 24 | count, size) + rest
        self.next_id += 1
        return self.next_id - 1

    def integer(self, name: str, size: int) -> int:
        return self.add(INT, name, size, struct.pack("I", 8 * size))

    def composite(self, name: str, members: list[tuple[str, int]], size: int = 64, kind: int = STRUCT) -> int:
        rest = b"".join(struct.pack("III", self._name(field), type_id, 0) for field, type_id in members)
        return self.add(kind, name, size, rest, len(members))

    def enum(self, name: str, values: dict[str, int]) -> int:
        rest = b"".join(struct.pack("Ii", self._name(field), value) for field, value in values.items())
        return self.add(ENUM, name, 4, rest, len(values))

    def tracepoint(self, name: str, arguments: list[int]) -> int:
        """`btf_trace_<name>`: a typedef of a pointer to a function with a leading context."""
        context = self.add(PTR)
        rest = b"".join(struct.pack("II", 0, type_id) for type_id in (context, *arguments))
        function = self.add(FUNC_PROTO, "", 0, rest, 1 + len(arguments))
        return self.add(TYPEDEF, f"btf_trace_{name}", self.add(PTR, "", function))

    def bytes(self) -> bytes:
        types, strings = bytes(self._types), bytes(self._strings)
        header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
        return header + types + strings
