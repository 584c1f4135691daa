"""What the guests report, as one table: kernel by test group."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

BROKEN: Final = "FAIL"
DETAIL_LINES: Final = 30


class Case(NamedTuple):
    """One test: its group is the name of its file, so that a new file is a new column.

    Attributes:
        outcome: `pass`, `fail` or `unsupported` (skipped: this kernel has no such thing).
        detail: why, when it did not pass.
    """

    group: str
    name: str
    outcome: str
    detail: str = ""


class Row(NamedTuple):
    """One kernel's results.

    Attributes:
        faults: what went wrong outside of any test: panic, hang, nothing reported.
    """

    kernel: str
    cases: Sequence[Case]
    faults: Sequence[str] = ()


def parse(junit: str) -> list[Case]:
    """The cases of a JUnit file. Raises `ElementTree.ParseError` on half a file."""
    found = []
    for element in ElementTree.fromstring(junit).iter("testcase"):
        where = element.get("classname") or element.get("name") or "unnamed"
        parts = [part for part in where.split(".") if part != "test_this_kernel"]
        module = next((part for part in reversed(parts) if part.startswith("test_")), parts[-1])
        outcome, detail = _outcome(element)
        found.append(Case(module.removeprefix("test_"), element.get("name", ""), outcome, detail))
    return found


def _outcome(element: ElementTree.Element) -> tuple[str, str]:
    for tag, outcome in (("error", "fail"), ("failure", "fail"), ("skipped", "unsupported")):
        child = element.find(tag)
        if child is not None:
            return outcome, child.text if outcome == "fail" and child.text else child.get("message", "")
    return "pass", ""


def gather(kernel: str, boots: Mapping[str, tuple[str, str | None]]) -> Row:
    """A kernel's row from its boots.

    Args:
        kernel: its name in the table.
        boots: by name, the fault of the machine (or nothing) and the JUnit text, None if none came back.
    """
    cases: list[Case] = []
    faults = []
    for name, (fault, junit) in boots.items():
        try:
            some = parse(junit) if junit is not None else []
        except ElementTree.ParseError as error:
            some, fault = [], fault or f"its JUnit file is broken: {error}"
        cases += some
        if fault or not some:
            faults.append(f"{name}: {fault or 'no test was reported'}")
    return Row(kernel, cases, faults)


def ok(row: Row) -> bool:
    """Whether nothing failed. A group of which nothing at all ran is a failure: skips may hide a loss."""
    return not row.faults and not any(cell(row, group).startswith(BROKEN) for group in groups([row]))


def groups(rows: Sequence[Row]) -> list[str]:
    return sorted({case.group for row in rows for case in row.cases})


def cell(row: Row, group: str) -> str:
    """The standing of a group: `12 pass`, `12 pass 1 unsupported`, `FAIL 1 of 13`."""
    outcomes = [case.outcome for case in row.cases if case.group == group]
    if not outcomes:
        return "-"
    failed, skipped = outcomes.count("fail"), outcomes.count("unsupported")
    passed = outcomes.count("pass")
    if failed or not passed:
        return f"{BROKEN} {failed} of {len(outcomes)}" if failed else f"{BROKEN} none ran"
    return f"{passed} pass" + (f" {skipped} unsupported" if skipped else "")


def table(rows: Sequence[Row]) -> str:
    """Kernels down, groups across; kernels are few and groups many, so printed turned round."""
    lines = [["", *(row.kernel for row in rows)]]
    lines += [[group, *(cell(row, group) for row in rows)] for group in groups(rows)]
    lines.append(["machine", *("; ".join([BROKEN, *row.faults]) if row.faults else "ok" for row in rows)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(text.rstrip() for text in texts)


def details(rows: Sequence[Row]) -> str:
    """Each failure with the end of its report, then the reasons of what is unsupported, each once."""
    lines: list[str] = []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for case in row.cases:
            if case.outcome == "fail":
                lines += [f"--- {row.kernel}: {case.group}: {case.name}", *_end(case.detail)]
            elif case.outcome == "unsupported":
                reasons.setdefault(f"{case.group}: {case.name}: {case.detail}", []).append(row.kernel)
    lines += [f"unsupported on {', '.join(kernels)}: {reason}" for reason, kernels in reasons.items()]
    return "\n".join(lines)


def _end(text: str) -> list[str]:
    return text.splitlines()[-DETAIL_LINES:]


def read(files: Sequence[Path]) -> str | None:
    """The JUnit text among the files a guest left."""
    return next((path.read_text(errors="replace") for path in files if path.name == "junit.xml"), None)
