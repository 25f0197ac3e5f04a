from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.evaluation.result_files import read_results, write_results

TABLE = pd.DataFrame(
    {
        "policy": ["None", "ppo@1.50"],
        "run": [0, 1],
        "env_id": ["A-v0", "B-v0"],
        "seed": [0, 1],
        "return": [0.1 + 0.2, 1 / 3],
        "undefined": [np.nan, 1.0],
    }
)
RECORD = {"command": "evaluate --env 'A B'", "versions": {"numpy": "2"}}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"results{suffix}"
    write_results(path, TABLE, RECORD)
    table, record = read_results(path)
    assert table.to_dict("list")["policy"] == ["None", "ppo@1.50"]
    assert table["return"].tolist() == pytest.approx(TABLE["return"].tolist(), rel=1e-15)
    assert np.isnan(table["undefined"][0])
    assert record == RECORD


def test_runs_and_record_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    TABLE.drop(columns="run").to_csv(path, index=False)
    table, record = read_results(path)
    assert table["run"].tolist() == [0, 0]
    assert record == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("policy,env,seed\na,b,0\n", "no column 'env_id'; did you mean 'env'"),
        ('a,b\n1,2,3\n4\n"', "line 4: the file is truncated"),
        ('a,b\n1,2\n4\n"\n', "line 4: not a CSV table"),
        ("", "the file is empty"),
        ("policy,env_id,seed,return\n", "no episodes"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"results\.csv(: |, ){message}"):
        read_results(path)


def test_damaged_parquet_and_record(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "results.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"results\.parquet: not a Parquet table"):
        read_results(tmp_path / "results.parquet")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_results(tmp_path / "none.parquet")
    TABLE.to_csv(tmp_path / "results.csv", index=False)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(ValueError, match=r"results\.json: not valid JSON"):
        read_results(tmp_path / "results.csv")
