from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.evaluation.result_files import check_path, read_results, write_results

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


EPISODES = "policy,env_id,seed,cost,return,label\n" + "".join(f"ppo,A-v0,{n},5,{n}.25,x\n" for n in range(3))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # A field that is missing would move the cost under the seed, and the return under the cost.
        ("ppo,A-v0,1,5", "ppo,A-v0,5", "line 3: 5 fields instead of 6"),
        ("ppo,A-v0,1,5", "ppo,A-v0,1,5,5", "line 3: 7 fields instead of 6"),
        ("2,5,2.25,x\n", "2,5,2.2", "line 4: the file is truncated"),
        ("1.25", "l.25", "line 3: return='l.25': must be a finite number"),
        ("1.25", "nan", "line 3: return='nan': must be a finite number"),
        ("A-v0,1", "A-v0,1.5", "line 3: seed must be a whole number"),
        ("A-v0,1", "A-v0,", "line 3: seed must be a whole number"),
        ("ppo,A-v0,1", ",A-v0,1", "line 3: policy is missing"),
        ("cost,return", "cost,cost", "line 1: two columns are named 'cost'"),
        ("1.25", "1\0.25", "line 3: control character 0x00"),
    ],
)
def test_a_damaged_row_is_named_not_shifted(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(EPISODES)
    assert read_results(path)[0]["return"].tolist() == [0.25, 1.25, 2.25]
    assert EPISODES.count(old) == 1
    path.write_text(EPISODES.replace(old, new))
    with pytest.raises(ValueError, match=rf"results\.csv, {message}"):
        read_results(path)


def test_columns_keep_their_kinds(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(
        'policy,env_id,seed,big,flag,text,real\n"a, b",A-v0,0,9007199254740993,True,x,\n'
        "1.5,A-v0,1,2,False,,inf\n"
    )
    table, _ = read_results(path)
    assert table["policy"].tolist() == ["a, b", "1.5"]
    assert table["big"].tolist() == [9_007_199_254_740_993, 2]
    assert table["flag"].tolist() == [True, False]
    assert table["text"].isna().tolist() == [False, True]
    assert np.isnan(table["real"][0]) and np.isinf(table["real"][1])


def test_what_is_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.arange(-1000, 1000).clip(-300, 300)
    table = pd.DataFrame({"policy": "a", "run": 0, "env_id": "A-v0", "seed": range(2000), "return": values})
    write_results(tmp_path / "results.csv", table, RECORD)
    np.testing.assert_array_equal(read_results(tmp_path / "results.csv")[0]["return"], values)


def test_records_nested_too_deep_are_one_error(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "results.csv", index=False)
    (tmp_path / "results.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"results\.json: not valid JSON"):
        read_results(tmp_path / "results.csv")


@pytest.mark.parametrize(("key", "value"), [("versions", [1]), ("policies", 3)])
def test_a_record_of_another_form_is_named(tmp_path: Path, key: str, value: object) -> None:
    write_results(tmp_path / "results.csv", TABLE, {**RECORD, key: value})
    with pytest.raises(ValueError, match=rf"results\.json: {key}=.*: must be an object"):
        read_results(tmp_path / "results.csv")


@pytest.mark.parametrize("name", ["history.csv", "agreement.csv"])
def test_tables_of_a_clone_are_not_replaced(tmp_path: Path, name: str) -> None:
    check_path(tmp_path / name)
    (tmp_path / "model.zip").touch()
    with pytest.raises(ValueError, match=rf"would replace {name} of the run"):
        check_path(tmp_path / name)
