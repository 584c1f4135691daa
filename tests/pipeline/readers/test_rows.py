"""Every row of every reader, from its own source to its own series, against a table kept apart."""

import resource
from pathlib import Path

import pytest

from pipeline.readers import cpu_cores, memory_meminfo, memory_vmstat, rezolus_rusage
from pipeline.records import Reading, Report
from pipeline.source import Attempts, Pace, Roots, Sampler
from tests.pipeline.readers.rows import (
    CPU_CORES,
    MEMINFO,
    RUSAGE,
    VMSTAT,
    Row,
    by_series,
    declared,
    published,
    wanted,
)

TABLES = [
    (cpu_cores.SAMPLER, CPU_CORES, "cpu_cores/cpu_cores_read", 1),
    (memory_meminfo.SAMPLER, MEMINFO, "memory_meminfo/memory_meminfo_read", 36),
    (memory_vmstat.SAMPLER, VMSTAT, "memory_vmstat/memory_vmstat_read", 36),
    (rezolus_rusage.SAMPLER, RUSAGE, "rezolus_rusage/main", 9),
]


@pytest.mark.parametrize(("sampler", "table", "key", "count"), TABLES)
def test_what_is_declared_is_what_is_wanted(sampler: Sampler, table: list[Row], key: str, count: int) -> None:
    (group,) = sampler.groups
    assert group.key == key
    assert declared(group) == wanted(table)
    assert len(group.metrics) == count


@pytest.mark.parametrize(("sampler", "table", "key", "count"), TABLES)
def test_every_series_is_there_once_and_explained(
    sampler: Sampler, table: list[Row], key: str, count: int
) -> None:
    (group,) = sampler.groups
    assert len({(metric.name, metric.labels) for metric in group.metrics}) == count
    assert all(metric.help and not metric.help.endswith(".") for metric in group.metrics)
    assert sampler.pace is Pace.TICK
    assert not sampler.opt_in


def read(sampler: Sampler, roots: Roots) -> Reading:
    attempts = Attempts(sampler, roots)
    report = attempts.attempt()
    attempts.close()
    assert report.error is None
    (reading,) = report.readings
    return reading


@pytest.mark.parametrize("row", MEMINFO, ids=lambda row: row.key)
def test_a_line_of_meminfo_goes_to_its_series_and_no_other(row: Row, tmp_path: Path) -> None:
    unit = "" if row.unit == "pages" else " kB"
    (tmp_path / "meminfo").write_text(f"{row.key}: 12345{unit}\n")
    found = published(read(memory_meminfo.SAMPLER, Roots(proc=str(tmp_path))))
    assert found.pop(row.series) == (12345 if row.unit == "pages" else 12345 * 1024)
    assert set(found.values()) == {None}


@pytest.mark.parametrize("row", VMSTAT, ids=lambda row: row.key)
def test_a_line_of_vmstat_goes_to_its_series_and_no_other(row: Row, tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text(f"{row.key.replace('*', 'normal')} 12345\nnr_unstable 0\n")
    found = published(read(memory_vmstat.SAMPLER, Roots(proc=str(tmp_path))))
    assert found.pop(row.series) == (12345 if row.unit != "bytes" else 12345 * resource.getpagesize())
    assert set(found.values()) == {None}


FIELDS = """
ru_utime ru_stime ru_maxrss ru_ixrss ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap ru_inblock
ru_oublock ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw"""


@pytest.mark.parametrize("row", RUSAGE, ids=lambda row: row.key)
def test_a_field_of_rusage_goes_to_its_series_and_no_other(row: Row) -> None:
    usage = resource.struct_rusage([12345 if field == row.key else 0 for field in FIELDS.split()])
    peak = 12345 if row.key == "VmHWM" else 0
    found = by_series(rezolus_rusage.GROUP, list(rezolus_rusage.numbers(usage, peak)))
    assert found.pop(row.series) == (12345 * 1_000_000_000 if row.unit == "nanoseconds" else 12345)
    assert set(found.values()) == {0}


READ = [
    (cpu_cores.SAMPLER, "sys/devices/system/cpu/online"),
    (memory_meminfo.SAMPLER, "proc/meminfo"),
    (memory_vmstat.SAMPLER, "proc/vmstat"),
]


def first_attempt(sampler: Sampler, root: Path) -> Report:
    attempts = Attempts(sampler, Roots(str(root / "proc"), str(root / "sys")))
    report = attempts.attempt()
    attempts.close()
    return report


@pytest.mark.parametrize(("sampler", "path"), READ)
def test_without_its_file_a_reader_is_unsupported(sampler: Sampler, path: str, tmp_path: Path) -> None:
    report = first_attempt(sampler, tmp_path)
    assert report.unsupported
    assert report.error == f"{tmp_path / path}: ENOENT (No such file or directory)"
    assert report.readings == ()


@pytest.mark.parametrize(("sampler", "path"), READ)
def test_without_the_right_to_read_its_file_a_reader_is_unsupported(
    sampler: Sampler, path: str, tmp_path: Path, nobody: None
) -> None:
    report = first_attempt(sampler, tmp_path)
    assert report.unsupported
    assert report.error == f"{tmp_path / path}: EACCES (Permission denied)"


@pytest.mark.parametrize(("sampler", "path"), READ)
def test_a_file_that_makes_no_sense_is_a_failure_to_be_tried_again(
    sampler: Sampler, path: str, tmp_path: Path
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xff\n")
    report = first_attempt(sampler, tmp_path)
    assert not report.unsupported
    assert report.error is not None
    assert report.error.startswith(f"ParseError: {sampler.reads}: ")
    assert "\n" not in report.error


@pytest.mark.parametrize(("sampler", "path"), READ)
def test_a_file_that_cannot_be_read_is_a_failure_naming_it(
    sampler: Sampler, path: str, tmp_path: Path
) -> None:
    (tmp_path / path).mkdir(parents=True)
    report = first_attempt(sampler, tmp_path)
    assert not report.unsupported
    assert report.error == f"{tmp_path / path}: EISDIR (Is a directory)"
