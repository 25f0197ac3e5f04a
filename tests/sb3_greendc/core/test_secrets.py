"""No password in anything that is recorded or printed, and nothing else changed."""

from __future__ import annotations

import json
import shlex
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sb3_greendc.cli import evaluate
from sb3_greendc.core.engine import TaskError
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.secrets import arguments_without_secrets, without_secrets
from sb3_greendc.tuning import Order

URLS = [
    "postgresql://tuner:s3cret@db:5432/tuning",
    "postgresql+psycopg://:s3cret@db/tuning",
    "postgresql://tuner:s3cret/with?all@signs@db/tuning",
    "postgresql://tuner:%733cret-s3cret@db/tuning",
    "postgresql://db/tuning?user=tuner&password=s3cret&sslmode=require",
    "postgresql://db/tuning?user=tuner&p%61ssword=s3cret#s3cret",
    "postgresql://tuner@db/tuning?sslpassword=s3cret",
    "https://db/tuning?access_token=s3cret",
    "postgresql%3A%2F%2Ftuner%3As3cret%40db%2Ftuning",
    "postgresql%3A%2F%2Fdb%2Ftuning%3Fpassword%3Ds3cret%26user%3Dtuner",
    "grpc://tuner:s3cret@db:99",
    "password=s3cret",
    "host=db user=tuner password='s3cret s3cret' dbname=tuning",
    "PGPASSWORD=s3cret",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "form", ["{}", "storage {}: no", "storage '{}': no", "Order(storage='{}')", "--storage={}"]
)
def test_no_secret_is_left(url: str, form: str) -> None:
    if "'" in url and "'" in form:
        form = "{}"
    shown = without_secrets(form.format(url))
    assert "s3cret" not in shown
    assert "***" in shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("arguments", [["--storage", "{}"], ["--storage={}"], ["{}"]])
def test_arguments(url: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["tune.py", *(argument.format(url) for argument in arguments), "--trials", "3"]
    monkeypatch.setattr(sys, "argv", command)
    recorded = shlex.split(provenance()["command"])
    assert "s3cret" not in str(recorded)
    assert (recorded[:2], recorded[-2:]) == (["python", "tune.py"], ["--trials", "3"])


def test_passwords_with_blanks_and_quotes() -> None:
    shown = arguments_without_secrets(["--storage", "postgresql://u:s3 cr'et@db/x", "--env", "VCC"])
    assert shown == ["--storage", "postgresql://u:***@db/x", "--env", "VCC"]
    shown = without_secrets("""Order(storage="postgresql://u:s3 cr'et@db/x", study='s')""")
    assert shown == """Order(storage="postgresql://u:***@db/x", study='s')"""


@pytest.mark.parametrize(
    "arguments", [["--password", "s3cret"], ["--db-token", "s3cret"], ["--api-key=s3cret"]]
)
def test_options_of_secrets(arguments: list[str]) -> None:
    assert "s3cret" not in str(arguments_without_secrets([*arguments, "--seed", "1"]))
    assert arguments_without_secrets([*arguments, "--seed", "1"])[-2:] == ["--seed", "1"]
    assert "s3cret" not in without_secrets(shlex.join(arguments))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://tuner@db:5432/tuning?sslmode=require",
        "journal:////data/tuning.log",
        "sqlite:///tuning.db",
        "scripts/train.py --env VCC-2019 --hparams 'policy_kwargs={net_arch: [64]}' n_tokens=3 --out a:b@c",
        "ppo:model.zip: no such file, see https://example.org/a?b=c",
        "--token: must be given",
    ],
)
def test_nothing_else_changes(text: str) -> None:
    assert without_secrets(text) == text
    assert arguments_without_secrets(text.split(" ")) == text.split(" ")


def test_a_url_is_shown_but_for_its_password() -> None:
    assert without_secrets("postgresql://tuner:s3cret@db/tuning") == "postgresql://tuner:***@db/tuning"
    url = "postgresql://db/tuning?user=tuner&password=s3cret&sslmode=require"
    assert without_secrets(url) == url.replace("s3cret", "***")


def test_secrets_of_a_known_url_in_other_forms() -> None:
    assert without_secrets("for user u, pass/word", "postgresql://u:pass%2Fword@db/x") == "for user u, ***"


def test_errors_of_tasks() -> None:
    order = Order("postgresql://u:s3cret@db/x", "s", 3)
    error = TaskError(0, order, "could not open postgresql://u:s3cret@db/x", "ValueError: u:s3cret@db")
    assert "s3cret@db/x" not in str(error)
    assert "postgresql://u:***@db/x" in str(error)


def test_no_secret_is_left_in_the_record_of_an_evaluation() -> None:
    arguments = ["--policies", "uncapped", "--set", "source=https://me:s3cret@host/a b", "--engine", "ray"]
    options = evaluate.build_parser().parse_args([*arguments, "--ray-address", "ray://me:s3cret@head:10001"])
    settings = {"source": "https://me:s3cret@host/a b", "months": [1, 2], "share": 0.5, "split": None}
    source = SimpleNamespace(name="a", source="https://me:s3cret@host/model.zip")
    evaluation: Any = SimpleNamespace(sources=[source], env_kwargs=settings)
    record = evaluate._record(options, [evaluation])
    assert "s3cret" not in json.dumps(record, default=str)
    assert record["options"]["ray_address"] == "ray://me:***@head:10001"
    assert record["options"]["episodes"] == 10
    assert record["env_kwargs"] == {**settings, "source": "https://me:***@host/a b"}
