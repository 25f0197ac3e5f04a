"""What tests of all commands share."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def one_line_error(
    name: str, main: Callable[[list[str]], int], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """Return what a command says when it refuses its input: one line, with its name, and exit code 2."""
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{name}: error: ")
    assert err.count("\n") == 1
    return err
