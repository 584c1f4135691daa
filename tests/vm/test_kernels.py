"""Which kernels are tried, and of each line the newest package."""

import pytest

from tests.vm.__main__ import parse, plans
from tests.vm.kernels import KERNELS, VmError, choose, newest, run


def test_all_or_those_named() -> None:
    assert choose("") == list(KERNELS)
    assert [kernel.name for kernel in choose("6.12 6.1")] == ["6.1", "6.12"], "in the list's order"
    with pytest.raises(VmError, match=r"no kernel 5\.4 in the list; there are 6\.1, 6\.12"):
        choose("6.1 5.4")


def test_names_are_told_apart() -> None:
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)


def test_the_newest_package_by_version_not_by_letters() -> None:
    older, newer = choose("6.1 6.12")
    packages = [
        "linux-image-6.1.0-9-cloud-amd64",
        "linux-image-6.1.0-57-cloud-amd64",
        "linux-image-6.1.0-57-cloud-amd64-dbg",
        "linux-image-6.1.0-58-amd64",
        "linux-image-6.12.99+deb12-cloud-amd64",
        "linux-image-6.12.117+deb12-cloud-amd64",
    ]
    assert newest(older, packages) == "linux-image-6.1.0-57-cloud-amd64"
    assert newest(newer, packages) == "linux-image-6.12.117+deb12-cloud-amd64"
    assert newest(older, []) is None


def test_systemd_runs_on_one_kernel_only_and_the_short_form_has_the_core() -> None:
    arguments = parse(["--short"])
    assert [plan.name for plan in plans(arguments, first=True)] == ["kernel", "service"]
    (kernel,) = plans(arguments, first=False)
    assert "-m core" in kernel.job
    assert "tests/kernel" in kernel.job
    assert [plan.name for plan in plans(parse(["--only", "service"]), first=True)] == ["service"]


def test_a_step_that_fails_or_takes_too_long_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(VmError, match=r"^sh -c echo why; exit 7 ended with exit code 7$"):
        run(["sh", "-c", "echo why; exit 7"], 10)
    assert capfd.readouterr().out == "why\n\n"
    with pytest.raises(VmError, match="took longer than 0 s"):
        run(["sleep", "60"], 0.2)
    with pytest.raises(VmError, match="cannot run /nowhere: No such file"):
        run(["/nowhere"], 1)
