"""The root file system's key and what the guest installs."""

from pathlib import Path

import pytest

from tests.vm import image
from tests.vm.kernels import VmError


def test_the_key_changes_with_what_the_image_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.key()
    assert before == image.key()
    monkeypatch.setattr(image, "PACKAGES", image.PACKAGES + ",bpftrace")
    assert image.key() != before


def test_an_image_with_the_key_is_used_as_it_is(tmp_path: Path) -> None:
    there = tmp_path / f"root-{image.key()}.img"
    there.touch()
    assert image.build(tmp_path, "/nowhere/python") == there


def test_of_the_test_tools_the_guest_gets_those_that_tests_import() -> None:
    project = {
        "dependencies": ["trio>=0.31"],
        "optional-dependencies": {"test": ["pytest>=8", "pytest-trio>=0.8", "mypy>=1.11", "hypothesis>=6"]},
    }
    assert image.requirements(project) == {
        "run.txt": ["trio>=0.31"],
        "test.txt": ["pytest>=8", "pytest-trio>=0.8", "hypothesis>=6"],
    }


def test_who_is_not_root_is_told_the_line() -> None:
    with pytest.raises(VmError, match=r"as root: apt-get install -y .* mmdebstrap"):
        image.install_tools(["mmdebstrap"], root=False)
