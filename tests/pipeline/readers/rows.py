"""What the readers have to publish, typed in once more and on its own: source, name, unit, labels."""

import msgspec
import numpy as np

from pipeline.records import Group, Kind, Reading

Series = tuple[str, str]


class Row(msgspec.Struct, frozen=True):
    """One series: where it is read, and what it is called."""

    key: str
    kind: str
    name: str
    unit: str
    labels: str

    @property
    def series(self) -> Series:
        return self.name, self.labels


def rows(text: str) -> list[Row]:
    """Lines `key kind metric unit labels`, `-` for none."""
    cells = [[cell if cell != "-" else "" for cell in line.split()] for line in text.strip().splitlines()]
    return [Row(*five) for five in cells]


MEMINFO = rows("""
MemTotal           gauge  memory_total               bytes  -
MemFree            gauge  memory_free                bytes  -
MemAvailable       gauge  memory_available           bytes  -
Buffers            gauge  memory_buffers             bytes  -
Cached             gauge  memory_cached              bytes  -
Dirty              gauge  memory_dirty               bytes  -
Writeback          gauge  memory_writeback           bytes  -
Active(file)       gauge  memory_active              bytes  kind=file
Active(anon)       gauge  memory_active              bytes  kind=anon
Inactive(file)     gauge  memory_inactive            bytes  kind=file
Inactive(anon)     gauge  memory_inactive            bytes  kind=anon
Unevictable        gauge  memory_unevictable         bytes  -
Mlocked            gauge  memory_mlocked             bytes  -
Shmem              gauge  memory_shmem               bytes  -
Mapped             gauge  memory_mapped              bytes  -
AnonPages          gauge  memory_anon                bytes  -
SReclaimable       gauge  memory_slab                bytes  kind=reclaimable
SUnreclaim         gauge  memory_slab                bytes  kind=unreclaimable
KReclaimable       gauge  memory_kernel_reclaimable  bytes  -
KernelStack        gauge  memory_kernel_stack        bytes  -
PageTables         gauge  memory_page_tables         bytes  -
Percpu             gauge  memory_percpu              bytes  -
SwapTotal          gauge  memory_swap_total          bytes  -
SwapFree           gauge  memory_swap_free           bytes  -
SwapCached         gauge  memory_swap_cached         bytes  -
CommitLimit        gauge  memory_commit_limit        bytes  -
Committed_AS       gauge  memory_committed           bytes  -
AnonHugePages      gauge  memory_hugepages_anon      bytes  -
ShmemHugePages     gauge  memory_hugepages_shmem     bytes  -
FileHugePages      gauge  memory_hugepages_file      bytes  -
Hugetlb            gauge  memory_hugetlb             bytes  -
HugePages_Total    gauge  memory_hugetlb_pages       pages  state=total
HugePages_Free     gauge  memory_hugetlb_pages       pages  state=free
HugePages_Rsvd     gauge  memory_hugetlb_pages       pages  state=reserved
HugePages_Surp     gauge  memory_hugetlb_pages       pages  state=surplus
HardwareCorrupted  gauge  memory_hardware_corrupted  bytes  -
""")

VMSTAT = rows("""
numa_hit                       counter  memory_numa_hit                       -           -
numa_miss                      counter  memory_numa_miss                      -           -
numa_foreign                   counter  memory_numa_foreign                   -           -
numa_interleave                counter  memory_numa_interleave                -           -
numa_local                     counter  memory_numa_local                     -           -
numa_other                     counter  memory_numa_other                     -           -
nr_dirtied                     counter  memory_pages_dirtied                  pages       -
nr_written                     counter  memory_pages_written                  pages       -
nr_dirty_threshold             gauge    memory_dirty_threshold                bytes       kind=hard
nr_dirty_background_threshold  gauge    memory_dirty_threshold                bytes       kind=background
pgscan_kswapd                  counter  memory_reclaim_scanned                pages       kind=kswapd
pgscan_direct                  counter  memory_reclaim_scanned                pages       kind=direct
pgsteal_kswapd                 counter  memory_reclaim_reclaimed              pages       kind=kswapd
pgsteal_direct                 counter  memory_reclaim_reclaimed              pages       kind=direct
allocstall_*                   counter  memory_allocation_stalls              operations  -
pgfault                        counter  memory_page_faults                    faults      -
pgmajfault                     counter  memory_major_page_faults              faults      -
pswpin                         counter  memory_swap_in                        pages       -
pswpout                        counter  memory_swap_out                       pages       -
workingset_refault_file        counter  memory_workingset_refaults            pages       kind=file
workingset_refault_anon        counter  memory_workingset_refaults            pages       kind=anon
workingset_activate_file       counter  memory_workingset_activations         pages       kind=file
workingset_activate_anon       counter  memory_workingset_activations         pages       kind=anon
workingset_restore_file        counter  memory_workingset_restores            pages       kind=file
workingset_restore_anon        counter  memory_workingset_restores            pages       kind=anon
oom_kill                       counter  memory_oom_kills                      operations  -
thp_fault_alloc                counter  memory_thp_faults                     faults      outcome=allocated
thp_fault_fallback             counter  memory_thp_faults                     faults      outcome=fallback
thp_collapse_alloc             counter  memory_thp_collapses                  operations  -
thp_split_page                 counter  memory_thp_splits                     operations  -
compact_stall                  counter  memory_compaction_stalls              operations  -
compact_success                counter  memory_compactions                    operations  outcome=success
compact_fail                   counter  memory_compactions                    operations  outcome=fail
numa_pte_updates               counter  memory_numa_balancing_pte_updates     operations  -
numa_hint_faults               counter  memory_numa_balancing_hint_faults     faults      -
numa_pages_migrated            counter  memory_numa_balancing_pages_migrated  pages       -
""")

CPU_CORES = rows("online  gauge  cpu_cores  -  -")

RUSAGE = rows("""
ru_utime    counter  rezolus_cpu_usage                       nanoseconds  state=user
ru_stime    counter  rezolus_cpu_usage                       nanoseconds  state=system
VmHWM       gauge    rezolus_memory_usage_resident_set_size  bytes        -
ru_minflt   counter  rezolus_memory_page_reclaims            -            -
ru_majflt   counter  rezolus_memory_page_faults              -            -
ru_inblock  counter  rezolus_blockio_operations              operations   op=read
ru_oublock  counter  rezolus_blockio_operations              operations   op=write
ru_nvcsw    counter  rezolus_context_switch                  -            kind=voluntary
ru_nivcsw   counter  rezolus_context_switch                  -            kind=involuntary
""")


def declared(group: Group) -> list[tuple[str, str, str, str]]:
    """Kind, name, unit and labels of everything the group declares, sorted."""
    return sorted(
        (
            metric.kind.value,
            metric.name,
            metric.unit,
            ",".join(f"{name}={value}" for name, value in metric.labels),
        )
        for metric in group.metrics
    )


def wanted(table: list[Row]) -> list[tuple[str, str, str, str]]:
    return sorted((row.kind, row.name, row.unit, row.labels) for row in table)


def published(reading: Reading) -> dict[Series, int | None]:
    """Every series of a reading of one slot of scalars, None where there is no reading."""
    group = reading.schema.group
    cells, gauges = reading.values[0].tolist(), reading.values.view(np.int64)[0].tolist()
    return {
        (metric.name, ",".join(f"{name}={value}" for name, value in metric.labels)): (
            (gauges if metric.kind is Kind.GAUGE else cells)[place] if reading.present[0, place] else None
        )
        for place, metric in enumerate(group.metrics)
    }


def by_series(group: Group, numbers: list[int | None]) -> dict[Series, int | None]:
    """What a parser gave, by series."""
    names = [
        (metric.name, ",".join(f"{name}={value}" for name, value in metric.labels))
        for metric in group.metrics
    ]
    return dict(zip(names, numbers, strict=True))
