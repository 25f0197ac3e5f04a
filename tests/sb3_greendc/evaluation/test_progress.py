"""Training logs: a row that is short is refused, a line that is still being written is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sb3_greendc.evaluation.progress import REWARD, STEPS, read_runs

LOG = f"{STEPS},{REWARD},note\n" + "".join(f"{100 * n},{n}.5,a\n" for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("200,2.5", "200", "line 3: 2 fields instead of 3"),
        ("200,2.5", "200,2.5,7", "line 3: 4 fields instead of 3"),
        ("2.5", "2.s", f"line 3: {REWARD}='2.s': must be a finite number"),
        (REWARD, STEPS, f"line 1: two columns are named '{STEPS}'"),
        (STEPS, "steps", "no column 'time/total_timesteps'"),
    ],
)
def test_damaged_logs(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "progress.csv"
    path.write_text(LOG.replace(old, new))
    with pytest.raises(ValueError, match=rf"progress\.csv(: |, ){message}"):
        read_runs(str(path))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{", "not valid JSON"),
        ('{"hyperparameters": 3}', "hyperparameters=3: must be an object"),
        ('{"hyperparameters": {"cost_limit": "low"}}', "cost_limit='low': must be a number"),
        ('{"hyperparameters": {"cost_limit": [1]}}', r"cost_limit=\[1\]: must be a number"),
    ],
)
def test_damaged_records_are_named(tmp_path: Path, record: str, message: str) -> None:
    (tmp_path / "progress.csv").write_text(LOG)
    (tmp_path / "run.json").write_text(record)
    with pytest.raises(ValueError, match=rf"run\.json: {message}"):
        _ = read_runs(str(tmp_path))[0].cost_limit


@pytest.mark.parametrize("record", ["[1]", "{}", '{"hyperparameters": null}'])
def test_records_without_hyperparameters(tmp_path: Path, record: str) -> None:
    (tmp_path / "progress.csv").write_text(LOG)
    (tmp_path / "run.json").write_text(record)
    assert read_runs(str(tmp_path))[0].cost_limit is None


@pytest.mark.parametrize("end", ["4", "400,", "400,4.5", "400,4.5,a"])
def test_a_line_without_an_end_is_still_being_written(tmp_path: Path, end: str) -> None:
    (tmp_path / "progress.csv").write_text(LOG + end)
    table = read_runs(str(tmp_path))[0].table
    assert table[STEPS].tolist() == [100, 200, 300]


def test_values_that_were_not_logged_are_missing(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(LOG.replace("2.5", "nan").replace("3.5", ""))
    assert read_runs(str(tmp_path))[0].table[REWARD].isna().tolist() == [False, True, True]


def test_a_folder_with_brackets_in_its_name(tmp_path: Path) -> None:
    run = tmp_path / "gamma[0.9]"
    run.mkdir()
    (run / "progress.csv").write_text(LOG)
    for path in (run, run / "progress.csv"):
        assert [one.path for one in read_runs(str(path))] == [run / "progress.csv"]
