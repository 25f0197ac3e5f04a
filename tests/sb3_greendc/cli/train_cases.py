"""What tests of the command train share."""

from __future__ import annotations

import pytest

from sb3_greendc.cli.train import main

SMALL = ["--hparams", "n_steps=16", "batch_size=32", "n_epochs=2", "--n-envs", "2"]


def fails_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("train: error: ")
    assert err.count("\n") == 1
    return err
