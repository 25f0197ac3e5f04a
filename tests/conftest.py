"""One thread for each test process: several, on two cores, would wait for each other most of the time.

Maintainers' commands are imported from ``tools/``, what measures speed from ``benchmarks/``, and what tests
of several folders share from ``tests/``.
"""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.dont_write_bytecode = False  # tests start hundreds of processes, which need not compile every module anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests")]

DEFAULT_ROW = (
    *("tests/tools", "tests/benchmarks", "tests/sb3_greendc/experiments"),
    *("tests/greendc/energy", "tests/greendc/live", "tests/greendc/traces"),
    *(f"tests/greendc/baselines/test_{name}" for name in ("divisible", "exact", "foresight", "heuristics_")),
    *(f"tests/greendc/baselines/test_{name}.py" for name in ("pool_bounds", "rolling_plan", "rollout")),
    *(f"tests/greendc/baselines/test_{name}" for name in ("vcc_bound", "vcc_planning", "vcc_rules")),
    *("tests/greendc/baselines/test_work_conserving", "tests/greendc/vcc/test_vcc_kernel.py"),
    *("tests/greendc/test_compile", "tests/sb3_greendc/core/test_engine.py"),
    *(f"tests/greendc/resource_pool/test_pool_{name}.py" for name in ("kernel", "properties", "snapshots")),
    *(f"tests/sb3_greendc/tuning/test_{name}.py" for name in ("databases", "journal_lock", "leases")),
    *(f"tests/sb3_greendc/tuning/test_{name}.py" for name in ("outages", "storage")),
    *(f"tests/greendc/cluster/test_cluster_{name}.py" for name in ("baselines", "clock", "evolved")),
    *(f"tests/greendc/cluster/test_cluster_{name}.py" for name in ("jobs", "rules")),
    *(f"tests/sb3_greendc/cli/test_{name}" for name in ("fetch_traces", "plot_cli", "slurm_")),
)
"""What touches neither Gymnasium nor Stable-Baselines3, shares a study, or is for maintainers alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what need not run again on other versions of the dependencies."""
    for item in items:
        if item.path.relative_to(ROOT).as_posix().startswith(DEFAULT_ROW):
            item.add_marker(pytest.mark.default_row)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let nothing be left out where GREENDC_NO_SKIPS says that every package is there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("GREENDC_NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
