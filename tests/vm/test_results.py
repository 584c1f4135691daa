"""The table, from recorded JUnit files: what is red must look red."""

from pathlib import Path

import pytest

from tests.vm.results import Case, Row, cell, details, gather, groups, ok, parse, read, table

RECORDED = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="1" skipped="1" tests="5">
<testcase classname="tests.kernel.test_btf" name="test_what_the_probes_ask" time="1.2" />
<testcase classname="tests.kernel.test_runtime" name="test_two_capabilities_are_enough" time="21" />
<testcase classname="tests.kernel.test_runtime" name="test_broken[tp_btf]" time="5.0">
<failure message="LoadError: program sys_enter does not load">test_runtime.py:91: in test_broken
E   bpf.handoff.LoadError: program sys_enter does not load as tp_btf sys_enter: EACCES</failure></testcase>
<testcase classname="tests.kernel.test_hooks" name="test_fallback[kprobe]" time="5.0">
<skipped type="pytest.skip" message="cannot attach to kprobe vfs_read: ENOENT">test_hooks.py:80</skipped>
</testcase>
<testcase classname="tests.pipeline.readers.test_this_kernel" name="test_memory" time="0.1" />
</testsuite></testsuites>
"""
GREEN = '<testsuites><testcase classname="tests.kernel.test_btf" name="test_a" /></testsuites>'


def test_groups_are_named_after_files() -> None:
    assert [(case.group, case.outcome) for case in parse(RECORDED)] == [
        ("btf", "pass"),
        ("runtime", "pass"),
        ("runtime", "fail"),
        ("hooks", "unsupported"),
        ("readers", "pass"),
    ]


def test_a_broken_probe_is_red_on_the_kernel_it_breaks_on_only() -> None:
    rows = [gather("6.1", {"kernel": ("", GREEN)}), gather("6.12", {"kernel": ("", RECORDED)})]
    assert [ok(row) for row in rows] == [True, False]
    assert groups(rows) == ["btf", "hooks", "readers", "runtime"]
    assert table(rows) == (
        "         6.1     6.12\n"
        "btf      1 pass  1 pass\n"
        "hooks    -       FAIL none ran\n"
        "readers  -       1 pass\n"
        "runtime  -       FAIL 1 of 2\n"
        "machine  ok      ok"
    )
    assert "--- 6.12: runtime: test_broken[tp_btf]\ntest_runtime.py:91" in details(rows)
    assert "unsupported on 6.12: hooks: test_fallback[kprobe]: cannot attach to kprobe" in details(rows)


def test_skips_are_shown_beside_what_passed() -> None:
    row = Row("6.1", [Case("hooks", "a", "pass"), Case("hooks", "b", "unsupported", "no fentry")])
    assert cell(row, "hooks") == "1 pass 1 unsupported"
    assert ok(row)


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        (("Kernel panic - not syncing: Fatal exception", None), "kernel: Kernel panic - not syncing: Fatal"),
        (("hangs, ended after 600 s", None), "kernel: hangs, ended after 600 s"),
        (("", None), "kernel: no test was reported"),
        (("", GREEN[:40]), "kernel: its JUnit file is broken"),
        (("Oops: 0002 [#1] SMP", GREEN), "kernel: Oops: 0002"),
        (("", "<testsuites />"), "kernel: no test was reported"),
    ],
)
def test_a_machine_that_ends_badly_is_red_whatever_its_tests_say(
    end: tuple[str, str | None], fault: str
) -> None:
    row = gather("6.1", {"kernel": end, "service": ("", GREEN)})
    assert not ok(row)
    assert row.faults[0].startswith(fault)
    assert "machine  FAIL; kernel: " in table([row])


def test_the_junit_file_is_found_among_what_came_back(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    (tmp_path / "junit.xml").write_text(GREEN)
    assert read(sorted(tmp_path.iterdir())) == GREEN
    assert read([]) is None
