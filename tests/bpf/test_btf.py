"""Questions to BTF, asked of blobs made by hand; tests/kernel asks the running kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bpf.btf import Btf
from tests.bpf.blobs import CONST, FUNC, FUNC_PROTO, TYPEDEF, UNION, Blob

pytest.importorskip("ctypes").CDLL("libbpf.so.1")


@pytest.fixture
def btf(tmp_path: Path) -> Iterator[Btf]:
    """A kernel with one module, `journal`, and a second that is no BTF at all."""
    base = Blob()
    integer = base.integer("int", 4)
    long = base.integer("long", 8)
    alias = base.add(TYPEDEF, "pid_t", integer)
    constant = base.add(CONST, "", alias)
    union = base.composite("", [("hidden", long), ("shadow", integer)], 8, UNION)
    base.composite("task", [("pid", constant), ("", union), ("__state", integer)])
    base.composite("empty", [])
    base.enum("subsystem", {"cpuset": 0, "cpu": 1, "none": -1})
    base.tracepoint("sys_enter", [long, long])
    base.tracepoint("bare", [])
    prototype = base.add(FUNC_PROTO)
    base.add(FUNC, "vfs_read", prototype)
    (tmp_path / "vmlinux").write_bytes(base.bytes())
    module = Blob(base)
    module.composite("journal", [("commits", long), ("task", alias)])
    module.tracepoint("journal_commit", [integer, long, long])
    (tmp_path / "journal").write_bytes(module.bytes())
    (tmp_path / "broken").write_bytes(b"\0btf_trace_elsewhere\0journal\0")
    found = Btf(tmp_path)
    yield found
    found.close()


def test_tracepoints_of_the_kernel_and_of_modules(btf: Btf) -> None:
    assert btf.tracepoint_home("sys_enter") == "vmlinux"
    assert btf.tracepoint_home("journal_commit") == "journal"
    assert btf.tracepoint_home("elsewhere") is None
    assert btf.tracepoint_home("gone") is None


def test_the_context_is_no_argument(btf: Btf) -> None:
    assert btf.tracepoint_args("sys_enter") == 2
    assert btf.tracepoint_args("journal_commit") == 3
    assert btf.tracepoint_args("bare") == 0
    assert btf.tracepoint_args("gone") is None


def test_fields_are_found_through_anonymous_members(btf: Btf) -> None:
    assert btf.has_struct("task")
    assert not btf.has_struct("pid_t")
    assert btf.has_field("task", "hidden")
    assert not btf.has_field("task", "state")
    assert not btf.has_field("nothing", "state")
    assert btf.first_field("task", ("__state", "state")) == "__state"
    assert btf.first_field("task", ("new", "old")) is None


def test_sizes_are_those_behind_typedefs(btf: Btf) -> None:
    assert btf.field_size("task", "pid") == 4
    assert btf.field_size("task", "hidden") == 8
    assert btf.field_size("journal", "task") == 4
    assert btf.field_size("task", "nothing") is None


def test_enumerators_may_be_negative(btf: Btf) -> None:
    assert btf.enum_value("subsystem", "cpu") == 1
    assert btf.enum_value("subsystem", "none") == -1
    assert btf.enum_value("subsystem", "memory") is None
    assert btf.enum_value("nothing", "cpu") is None


def test_functions(btf: Btf) -> None:
    assert btf.has_function("vfs_read")
    assert not btf.has_function("vfs_write")


def test_types_as_c_text_with_what_they_embed(btf: Btf) -> None:
    text = btf.c_types(["task", "journal"])
    assert "struct task {" in text
    assert "struct journal {" in text
    assert text.index("typedef int pid_t") < text.index("struct journal {")


def test_a_missing_struct_is_named(btf: Btf) -> None:
    with pytest.raises(LookupError, match="no struct inode"):
        btf.c_types(["task", "inode"])


def test_no_btf_and_bad_btf(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="vmlinux"):
        Btf(tmp_path)
    (tmp_path / "vmlinux").write_bytes(b"not BTF")
    with pytest.raises(OSError, match="not the BTF of a kernel"):
        Btf(tmp_path)
