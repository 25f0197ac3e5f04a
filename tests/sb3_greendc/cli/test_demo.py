"""The demo: its tables fit a terminal, its commands are commands, and a small one makes the page."""

from __future__ import annotations

import shlex

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from greendc import baselines
from sb3_greendc.cli import demo, demo_page, demo_pool, demo_vcc
from sb3_greendc.cli import evaluate as evaluate_cli
from sb3_greendc.cli import train as train_cli


def pool_results():
    rng = np.random.default_rng(0)
    rows = []
    names = [
        *demo_pool.HEURISTICS,
        demo_pool.CHANCE_MASKED,
        demo_pool.SHIPPED,
        demo_pool.DISTILLED,
        demo_pool.PLANNER,
        demo_pool.GUIDED,
    ]
    for place, policy in enumerate(names):
        for episode in range(4):
            metrics = {metric: 0.1 * place + 0.01 * rng.random() for metric in demo_pool.METRICS}
            head = {"policy": policy, "run": 0, "env_id": "ResourcePool-10-v0"}
            rows.append({**head, "episode": episode, "seed": episode, **metrics})
    return pd.DataFrame(rows)


def vcc_results():
    rng = np.random.default_rng(0)
    rows = []
    for period in demo_vcc.PERIODS:
        for place, policy in enumerate([*baselines.names("vcc"), demo_vcc.SHIPPED, demo_vcc.LEARNED]):
            for episode in range(4):
                metrics = {metric: -30_000.0 * place + rng.random() for metric in demo_vcc.METRICS}
                metrics["carbon_change"] = -14.0 * place + rng.random()
                metrics["mean_delay"] = 100.0 * rng.random()
                head = {"policy": policy, "run": 0, "env_id": period.title}
                rows.append({**head, "episode": episode, "seed": episode, **metrics})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("table", "best"),
    [
        (demo_pool.short_table(pool_results()), demo_pool.GUIDED),
        (demo_vcc.short_table(vcc_results()), "always_on"),
    ],
    ids=["pool", "vcc"],
)
def test_tables_fit_eighty_columns_whole_with_the_best_on_top(table, best):
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(demo_page.terminal_table(table, "title"))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for row in table.itertuples(index=False):
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{row[0]} ")]
        assert all(str(cell) in line for cell in row)
    assert table["policy"].iloc[0] == best


def test_its_commands_are_commands(tmp_path):
    pool = demo_pool.PoolPart(tmp_path / "pool", 100, 4, 0)
    vcc = demo_vcc.VccPart(tmp_path / "vcc", 100, 4, 0)
    commands = [shlex.split(command) for command in (*pool.commands(), *vcc.commands())]
    for program, script, *arguments in commands:
        parser = {"scripts/evaluate.py": evaluate_cli, "scripts/train.py": train_cli}[script].build_parser()
        assert program == "python"
        parser.parse_args(arguments)
    assert len(commands) == 6


def test_an_interrupted_training_is_not_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_vcc, "prepare", lambda *given, **more: None)
    monkeypatch.setattr(demo_vcc, "train", lambda *given, **more: False)
    monkeypatch.setattr(demo_vcc.VccPart, "_judge", lambda *given: pytest.fail("judged"))
    with pytest.raises(KeyboardInterrupt):
        demo_vcc.VccPart(tmp_path, 100, 4, 0).run(lambda line: None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--out", "file"], "--out file: cannot be written"), (["--seed", "-1"], "seed=-1: must be at least 0")],
)
def test_bad_input_is_one_line(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        demo.main(options)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"demo: error: {message}")
    assert "--pool-episodes" in demo.build_parser().format_help()


@pytest.mark.slow
def test_a_small_demo_makes_tables_and_a_page(tmp_path, capsys):
    small = ["--labels=2000", "--timesteps=4096", "--pool-episodes=3", "--episodes=2", "--engine=serial"]
    assert demo.main([f"--out={tmp_path}", *small]) == 0
    said = capsys.readouterr().out
    assert "ResourcePool-10, offered load 1.0: 3 held-out episodes" in said
    assert "guided rollouts" in said
    page = (tmp_path / demo.PAGE).read_text()
    assert page.count("data:image/svg+xml") == 6
    assert "scripts/evaluate.py --policies random fcfs" in page
    judged = {part: set(pd.read_csv(tmp_path / part / "results.csv")["policy"]) for part in ("pool", "vcc")}
    assert {"random", demo_pool.CHANCE_MASKED} <= judged["pool"] and "random" in judged["vcc"]
    for name in ("pool/model/environment.json", "pool/results.csv", "vcc/week.png", "pool/gantt.png"):
        assert (tmp_path / name).is_file()
