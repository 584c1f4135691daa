"""A task that is sent from CPU to CPU counts its moves."""

import os
import sys

import pytest

from bpf import sched
from tests.kernel.sched import HIERARCHY, scheduler
from tests.kernel.world import cgroup, run, within

pytestmark = [pytest.mark.kernel, pytest.mark.core]

BOUNCE = """
import os, sys
one, other = sorted(os.sched_getaffinity(0))[:2]
for turn in range(int(sys.argv[1])):
    os.sched_setaffinity(0, {one if turn % 2 else other})
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU only")
@pytest.mark.parametrize("kind", ["tp_btf", "raw_tp"])
async def test_a_bouncing_task_moves_as_often_as_it_is_told(kind: str) -> None:
    async with scheduler((sched.MIGRATIONS,), HIERARCHY, kind) as running:
        before = running.rows("cpu_migrations_migrations").values()
        with cgroup(HIERARCHY, "bounce") as folder:
            run(within(folder, sys.executable, "-c", BOUNCE, "1009"))
            (moves,) = running.cgroup("cpu_migrations_cgroup", f"/{folder.name}")
        after = running.rows("cpu_migrations_migrations").values()
    # It may be on the first target already, and may have moved while it started.
    assert 1008 <= moves <= 1009 + 20
    grown = [
        [late - early for late, early in zip(*pair, strict=True)] for pair in zip(after, before, strict=True)
    ]
    assert sum(left for left, _ in grown) == sum(came for _, came in grown) >= moves
