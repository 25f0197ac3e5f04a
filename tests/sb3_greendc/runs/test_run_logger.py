"""The log of a run."""

from __future__ import annotations

from pathlib import Path

from sb3_greendc.runs.run_logger import RunLogger


def test_columns_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    """New ones go behind those that are there; their rows before are empty."""
    logger = RunLogger(tmp_path, ["csv"])
    for row in (["c", "e", "a", "d"], ["g", "a", "b", "f"]):
        for name in row:
            logger.record(name, len(row) + ord(name))
        logger.dump(1)
    logger.close()
    assert (
        tmp_path / "progress.csv"
    ).read_text() == "a,c,d,e,b,f,g\n101,103,104,105,,,\n101,,,,102,106,107\n"
