"""These tests load real programs: root, a kernel with BTF and an interpreter with bcc are needed."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpf.handoff import interpreters

HERE = Path(__file__).parent


def lacking() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "needs a kernel with BTF"
    python = interpreters("")[-1]
    if subprocess.run([python, "-c", "from bcc import BPF"], capture_output=True).returncode:
        return f"needs bcc for {python}"
    return ""


@pytest.fixture(scope="session")
def tracefs() -> Iterator[Path]:
    """The folder of tracepoints; mounted for the tests where nobody has."""
    folder = Path("/sys/kernel/tracing")
    if (folder / "events").exists():
        yield folder
        return
    if subprocess.run(["mount", "-t", "tracefs", "tracefs", folder], capture_output=True).returncode:
        pytest.skip("tracefs cannot be mounted")
    yield folder
    subprocess.run(["umount", folder], check=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    own = [item for item in items if HERE in item.path.parents]
    if own and (reason := lacking()):
        if os.environ.get("CI"):
            raise pytest.UsageError(f"the kernel tests cannot run: {reason}")
        for item in own:
            item.add_marker(pytest.mark.skip(reason=reason))
