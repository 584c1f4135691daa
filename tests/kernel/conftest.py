"""These tests load real programs: root, a kernel with BTF and an interpreter with bcc are needed."""

import os
import subprocess
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    own = [item for item in items if HERE in item.path.parents]
    if own and (reason := lacking()):
        for item in own:
            item.add_marker(pytest.mark.skip(reason=reason))
