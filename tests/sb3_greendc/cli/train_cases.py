"""What tests of the command train share."""

from __future__ import annotations

import pytest
from command_cases import one_line_error

from sb3_greendc.cli.train import main

SMALL = ["--hparams", "n_steps=16", "batch_size=32", "n_epochs=2", "--n-envs", "2"]


def fails_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    return one_line_error("train", main, arguments, capsys)
