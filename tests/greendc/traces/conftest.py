"""Where the real traces are, for tests that can use them."""

import os
from pathlib import Path

import pytest


def shared_data(part: str) -> Path:
    root = Path(__file__).resolve().parents[3]
    folder = Path(os.environ.get("GREENDC_SHARED_DATA", root / ".." / "shared" / "data")) / part
    if not folder.is_dir():
        pytest.skip(f"no {part} in ../shared/data or GREENDC_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def google_folder() -> Path:
    return shared_data("google2019/daily_events")


@pytest.fixture(scope="session")
def moer_folder() -> Path:
    return shared_data("moer")
