"""A training may end at any change of its folder: it goes on bit for bit, and nothing mixed is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from programs import run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")


@pytest.mark.parametrize("scenario", ["new", "overwrite"])
def test_every_crash_point(scenario: str, tmp_path: Path) -> None:
    done = run_python(Path(__file__).with_name("crash_points.py"), scenario, tmp_path)
    assert done.returncode == 0, done.stderr
    *results, end = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert end == {"points": len(results), "same": True}
    assert len(results) >= 12
    assert all(result["same"] for result in results)
    assert [result["rest"] for result in results if result["rest"]] == []
    seen = [result["seen"] for result in results]
    assert "a mixture" not in seen
    refused = [result["refused"] for result in results if result["refused"]]
    if scenario == "new":
        assert set(seen) - {"new"} <= {one for one in seen if "no such file" in one or "unfinished" in one}
        assert refused == []
    else:
        assert "old" in seen  # before the first change
        assert any("unfinished" in one for one in seen)
        assert all("of another run: seed: 1 there, 2 here" in one or "is whole" in one for one in refused)
    assert "new" in seen  # after the last
