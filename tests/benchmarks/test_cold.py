"""The first use of an environment: an empty cache, then a full one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import cold
from benchmarks.command import main


def test_a_process_of_its_own_takes_the_first_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cold, "CASES", {"cart_pole": ("CartPole-v1", {"max_episode_steps": 5})})
    first, step = cold.first_use("cart_pole", None, tmp_path)
    assert first > 0.0 < step


def test_a_process_that_fails_is_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cold, "CHILD", "raise SystemExit(3)")
    with pytest.raises(SystemExit):
        main(["cold", "--cases", "vcc"])
    assert "vcc: the process that was to take its first step ended with 3" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["cold", "--envs", "-1"])
    assert "argument --envs" in capsys.readouterr().err


def test_compiled_code_goes_to_the_folder_that_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = "import json, os, sys; print(json.dumps([os.environ['NUMBA_CACHE_DIR'], json.loads(sys.argv[1])]))"
    monkeypatch.setattr(cold, "CHILD", told)
    folder, case = cold.first_use("pool_lookahead", 4, tmp_path)
    assert folder == str(tmp_path)
    assert case == ["ResourcePool-10", {"mask": "now_on_time", "lookahead": 24}, 4]


def test_every_case_gets_an_empty_cache_and_then_the_same_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, int, bool]] = []

    def first_use(case: str, envs: int, cache: Path) -> tuple[float, float]:
        full = (cache / "full").exists()
        (cache / "full").touch()
        calls.append((case, envs, full))
        return (0.25 if full else 8.0 + len(calls)), 5e-6

    monkeypatch.setattr(cold, "first_use", first_use)
    path = tmp_path / "cold.json"
    assert main(["cold", "--cases", "pool", "vcc", "--envs", "4", "--rounds", "3", "--json", str(path)]) == 0
    assert calls == [(case, 4, full) for _ in range(3) for case in ("pool", "vcc") for full in (False, True)]
    written = json.loads(path.read_text())
    assert written["cases"]["pool"] == {
        "first": [9.0, 13.0, 17.0],
        "next": [0.25] * 3,
        "cart_pole": [5e-6] * 3,
    }
    shown = capsys.readouterr().out
    assert "13.0" in shown and "0.25" in shown and "5.0" in shown
