"""The running kernel's own types."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpf.btf import Btf

pytestmark = [pytest.mark.kernel, pytest.mark.core]


@pytest.fixture(scope="module")
def btf() -> Iterator[Btf]:
    found = Btf(Path("/sys/kernel/btf"))
    yield found
    found.close()


def test_what_the_probes_ask(btf: Btf) -> None:
    assert btf.tracepoint_home("sys_enter") == "vmlinux"
    assert btf.tracepoint_home("no_such_event") is None
    assert btf.tracepoint_args("sys_enter") == 2
    assert btf.tracepoint_args("block_rq_complete") == 3
    assert btf.first_field("task_struct", ("__state", "state")) in ("__state", "state")
    assert btf.first_field("kernfs_node", ("__parent", "parent")) in ("__parent", "parent")
    assert btf.field_size("task_struct", "pid") == 4
    assert btf.field_size("kernfs_node", "id") == 8
    assert btf.enum_value("bpf_func_id", "BPF_FUNC_map_lookup_elem") == 1
    assert btf.has_struct("task_struct")
    assert btf.has_function("vfs_read")


def test_c_text_of_a_large_struct(btf: Btf) -> None:
    text = btf.c_types(["task_struct", "css_set"])
    assert "struct task_struct {" in text
    assert "struct css_set {" in text


def test_arguments_of_a_tracepoint_that_differs_between_kernels(btf: Btf) -> None:
    """`balance_dirty_pages` has 12 up to 6.12 and fewer since; its sampler must know which."""
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    found = btf.tracepoint_args("balance_dirty_pages")
    if release <= (6, 12):
        assert found == 12
    elif release == (6, 18):
        assert found == 8
    else:
        assert found in (8, 12)
