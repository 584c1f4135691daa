"""The kernel's own BPF library, by ctypes. Standard library only: the compile child uses it too."""

from __future__ import annotations

import ctypes
from functools import lru_cache


@lru_cache(maxsize=1)
def libbpf() -> ctypes.CDLL:
    """The libbpf library with the signatures used here; it keeps quiet on stderr.

    Raises:
        OSError: it is not installed.
    """
    lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    for name, result, *arguments in (
        ("libbpf_set_print", ctypes.c_void_p, ctypes.c_void_p),
        ("btf__new", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32),
        ("btf__parse_raw_split", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ("btf__free", None, ctypes.c_void_p),
        ("btf__find_by_name_kind", ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32),
        ("btf__type_by_id", ctypes.POINTER(ctypes.c_uint32), ctypes.c_void_p, ctypes.c_uint32),
        ("btf__name_by_offset", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint32),
        ("btf__resolve_size", ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint32),
        (
            "btf_dump__new",
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ),
        ("btf_dump__dump_type", ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32),
        ("btf_dump__free", None, ctypes.c_void_p),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.libbpf_set_print(None)
    return lib
