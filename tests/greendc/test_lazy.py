"""Imports at first use: what ``import greendc`` leaves out, and what then behaves as ever."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from greendc.lazy import LazyModule, lazy_names

HEAVY = ["numba", "pandas", "scipy.sparse", "matplotlib", "pyarrow", "torch"]


def imported(code):
    """Return which heavy modules a new process has imported after some code."""
    ask = f"{code}; import sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_environments_imports_nothing_heavy():
    assert imported("import greendc, greendc.vcc, greendc.resource_pool, greendc.cluster") == "[]"


def test_a_simulator_imports_numba_but_not_pandas():
    assert imported("import greendc.resource_pool.simulator, greendc.cluster.simulator") == "['numba']"


def test_heuristics_leave_linear_programmes_and_statistics_to_those_who_ask():
    assert imported("import greendc.baselines") == "['numba']"


@pytest.mark.parametrize("family", ["vcc", "resource_pool", "cluster"])
def test_families_have_the_names_that_they_list(family):
    package = importlib.import_module(f"greendc.{family}")
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"'greendc.{family}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_a_lazy_module_gives_what_the_module_has():
    import json

    lazy = LazyModule("json")
    assert lazy.loads is json.loads
    assert "loads" in vars(lazy)
    with pytest.raises(AttributeError, match="nothing"):
        lazy.nothing  # noqa: B018


def test_lazy_names_come_from_their_modules():
    get = lazy_names("greendc.vcc", {"SPLITS": "splits"})
    from greendc.vcc.splits import SPLITS

    assert get("SPLITS") is SPLITS
    assert [len(months) for months in SPLITS.values()] == [11, 4, 1, 12]
    assert (SPLITS["train"][0], SPLITS["test"][-1]) == ("2019-05", "2021-08")
    assert SPLITS["validation"] == ("2020-05", "2020-06", "2020-07", "2020-08")
