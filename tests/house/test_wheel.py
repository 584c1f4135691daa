"""What a wheel brings: one name at the top, and all rooms importable by their plain names."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(
    path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("tests", "rezolusd")
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """A wheel of this checkout, as `make wheel` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(
        build, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stdout
    (path,) = folder.glob("rezolusd-*.whl")
    return zipfile.Path(path)


def names(folder: zipfile.Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_only_the_daemons_own_name_is_at_the_top(wheel: zipfile.Path) -> None:
    package, info = sorted(names(wheel), key=len)
    assert package == "rezolusd"
    assert info.startswith("rezolusd-")
    assert info.endswith(".dist-info")


def test_the_other_rooms_are_inside(wheel: zipfile.Path) -> None:
    assert {"config", "pipeline", "sinks"} <= set(ROOMS)
    assert names(wheel / "rezolusd" / "_packages") == ROOMS


def test_every_module_of_the_checkout_is_in_the_wheel_and_no_test(wheel: zipfile.Path) -> None:
    packed = set(wheel.root.namelist())
    for room in ROOMS:
        for module in (ROOT / room).rglob("*.[pch]*"):
            if module.suffix == ".pyc" or module.is_dir():
                continue
            assert f"rezolusd/_packages/{module.relative_to(ROOT)}" in packed
    for module in (ROOT / "rezolusd").rglob("*.py"):
        assert str(module.relative_to(ROOT)) in packed
    assert not [name for name in packed if "tests/" in name or "__pycache__" in name]


def test_unpacked_anywhere_it_can_be_imported_and_is_what_is_imported(
    wheel: zipfile.Path, tmp_path: Path
) -> None:
    # Opened anew: of an archive that a zipfile.Path looked into, Python 3.11.2 cannot extract all.
    with zipfile.ZipFile(str(wheel.root.filename)) as archive:
        archive.extractall(tmp_path / "site")
    code = """
import rezolusd, config.load, pipeline.records, sinks.prometheus, rezolusd.catalog, sys
print(*(module.__file__ for name, module in sys.modules.items()
    if name.split(".")[0] in ("rezolusd", "config", "pipeline", "sinks")), sep="\\n")
"""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    loaded = subprocess.check_output(
        [sys.executable, "-P", "-c", code], cwd=elsewhere, env=environ, encoding="utf-8", timeout=60
    ).split()
    assert len(loaded) > 10
    assert [path for path in loaded if not path.startswith(str(tmp_path / "site" / "rezolusd"))] == []
