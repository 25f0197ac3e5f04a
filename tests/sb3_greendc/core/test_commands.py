"""Commands are shown as their user types them."""

from __future__ import annotations

import pytest

from sb3_greendc.core.commands import how_to_start, started_as

CALLS = [
    ("/opt/venv/bin/greendc", "greendc {}", ["greendc"]),
    ("scripts/train.py", "python scripts/{}.py", ["python", "scripts/train.py"]),
    (
        "../a clone/scripts/tune.py",
        "python ../a clone/scripts/{}.py",
        ["python", "../a clone/scripts/tune.py"],
    ),
    (
        "/x/site-packages/sb3_greendc/__main__.py",
        "python -m sb3_greendc {}",
        ["python", "-m", "sb3_greendc"],
    ),
    (
        "/x/sb3_greendc/cli/train.py",
        "python -m sb3_greendc.cli.{}",
        ["python", "-m", "sb3_greendc.cli.train"],
    ),
    ("my_study.py", "greendc {}", ["python", "my_study.py"]),
    ("/usr/bin/pytest", "greendc {}", ["/usr/bin/pytest"]),
]


@pytest.mark.parametrize(("file", "shown", "words"), CALLS)
def test_how_a_user_starts_a_command(file: str, shown: str, words: list[str]) -> None:
    assert how_to_start("evaluate", file) == shown.format("evaluate")
    assert started_as([file, "--seed", "1"]) == [*words, "--seed", "1"]


def test_scripts_and_modules_of_other_names() -> None:
    shown = [how_to_start(name, "scripts/train.py") for name in ("calibrate", "fetch", "my-site")]
    assert shown == [
        "python scripts/calibrate_cost_limit.py",
        "python scripts/fetch_traces.py",
        "python scripts/reproduce.py my-site",
    ]
    assert how_to_start("fetch", "/x/sb3_greendc/cli/train.py") == "python -m sb3_greendc.cli.fetch_traces"
