"""The source on plain arrays."""

import numpy as np

from bpf.maps import Histograms
from bpf.syscall_latency import Latency
from bpf.syscall_table import OPS
from pipeline.histogram import index as bucket
from pipeline.records import HISTOGRAM_BUCKETS


def test_latency_is_one_row_of_seventeen_histograms() -> None:
    cells = np.zeros(17 * HISTOGRAM_BUCKETS, np.uint64)
    cells[OPS.index("sleep") * HISTOGRAM_BUCKETS + bucket(7_000_000)] = 4
    (reading,) = Latency(Histograms(cells, 17)).sample()
    assert reading.values.shape == (1, reading.schema.group.width)
    assert reading.values.sum() == 4
    at = reading.schema.group.offsets[OPS.index("sleep")]
    assert reading.values[0, at + bucket(7_000_000)] == 4
