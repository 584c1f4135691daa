import os
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[None]:
    """Nothing below `tmp_path` can be opened while the test runs, not even by root."""
    tmp_path.chmod(0)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(mine)
    tmp_path.chmod(0o700)
