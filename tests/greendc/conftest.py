"""Where real input lies, for tests that can use it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_file() -> Callable[[str], Path]:
    """Finds a file of the real input, or skips the test where it is absent."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("GREENDC_SHARED_DATA", root / ".." / "shared" / "data"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(f"no {name} in ../shared/data or GREENDC_SHARED_DATA")
        return path

    return find
