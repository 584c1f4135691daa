"""What becomes of the daemon where BPF is not to be had: its file samplers go on, the rest says why."""

from pathlib import Path

import pytest

from rezolusd import catalog
from tests.e2e.process import Daemon, until

pytestmark = [pytest.mark.kernel, pytest.mark.e2e, pytest.mark.core]

HIDDEN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh")
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.mark.parametrize(
    ("wrapper", "reason"),
    [
        pytest.param(HIDDEN, "no kernel BTF: /sys/kernel/btf/vmlinux: No such file", id="no BTF"),
        pytest.param(UNPRIVILEGED, "EPERM (needs CAP_PERFMON, CAP_BPF)", id="no CAP_BPF"),
    ],
)
def test_file_samplers_are_active_and_bpf_samplers_say_why_not(
    tmp_path: Path, wrapper: tuple[str, ...], reason: str
) -> None:
    config = tmp_path / "rezolusd.toml"
    config.write_text('[general]\nlisten = "127.0.0.1:0"\ninterval = "250ms"\n')
    bpf = {part.sampler.name for family in catalog.FAMILIES for part in family.parts}
    with Daemon(config, wrapper) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        until(lambda: "starting" not in daemon.states().values())
        rows = {row["name"]: row for row in daemon.json("/samplers")}
        assert {name for name, row in rows.items() if row["state"] == "unsupported"} == bpf
        assert {row["state"] for name, row in rows.items() if name not in bpf} == {"active"}
        for name in bpf:
            assert reason in str(rows[name])
        page = daemon.text("/metrics")
        assert "\nmemory_total{" in page
        assert "\nsyscall{" not in page
