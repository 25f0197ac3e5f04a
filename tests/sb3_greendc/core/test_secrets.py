"""No password is in what is printed or recorded."""

from __future__ import annotations

import pytest

from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.secrets import arguments_without_secrets, without_secrets
from sb3_greendc.tuning.storage import open_storage


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://tuner:s3cret@db/tuning", "postgresql://tuner:***@db/tuning"),
        ("postgresql+psycopg://tuner:s3:c/re@t@db/tuning", "postgresql+psycopg://tuner:***@db/tuning"),
        ("postgresql://:s3cret@db/tuning", "postgresql://:***@db/tuning"),
        ("postgresql://tuner@db/tuning?password=s3cret&x=1", "postgresql://tuner@db/tuning?password=***&x=1"),
        ("--storage=mysql://a:s3cret@b/c and http://x/y", "--storage=mysql://a:***@b/c and http://x/y"),
        ("https://host/v1?api_key=s3cret#end", "https://host/v1?api_key=***#end"),
        ("host=db user=tuner password=s3cret", "host=db user=tuner password=***"),
        ("postgresql://tuner@db:5432/tuning", "postgresql://tuner@db:5432/tuning"),
        ("journal:////data/a@b.log", "journal:////data/a@b.log"),
    ],
)
def test_secrets_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_password_with_spaces_is_hidden_in_arguments() -> None:
    arguments = ["tune", "--storage", "postgresql://tuner:s3 cret@db/tuning", "--seed", "1"]
    shown = ["tune", "--storage", "postgresql://tuner:***@db/tuning", "--seed", "1"]
    assert arguments_without_secrets(arguments) == shown


def test_the_recorded_command_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tune.py", "--storage", "postgresql://tuner:s3cret@db/tuning"])
    assert provenance()["command"] == "tune.py --storage 'postgresql://tuner:***@db/tuning'"


@pytest.mark.parametrize("url", ["nosuch://u:s3cret@h/d", "grpc://u:s3cret@host"])
def test_errors_of_a_storage_have_no_password(url: str) -> None:
    with pytest.raises(ValueError, match="storage") as caught:
        open_storage(url)
    assert "s3cret" not in str(caught.value)


def test_one_line_errors_have_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), one_line_errors("tune"):
        raise ValueError("storage postgresql://u:s3cret@h/d is gone")
    assert capsys.readouterr().err == "tune: error: storage postgresql://u:***@h/d is gone\n"
