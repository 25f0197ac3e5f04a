"""``make demo``: distil a planner, train PPO, judge both against everything else, and show it, in minutes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from sb3_greendc.cli import demo_page, demo_pool, demo_vcc
from sb3_greendc.cli.common import Parser, one_line_errors
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.engine import ENGINES, map_tasks
from sb3_greendc.core.files import require_room
from sb3_greendc.runs.training import require_seed

PAGE = "index.html"

Part = demo_pool.PoolPart | demo_vcc.VccPart


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("demo"),
        description="Distil a policy from a planner, train PPO on real emissions, and judge both beside "
        "baselines, shipped policies and guided rollouts: two tables and a page.",
    )
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for results and page")
    parser.add_argument("--labels", type=whole_number, default=80_000, help="decisions to distil from")
    parser.add_argument("--timesteps", type=whole_number, default=400_000, help="hours to train PPO for")
    parser.add_argument("--pool-episodes", type=whole_number, default=32, help="of jobs, for each policy")
    parser.add_argument(
        "--episodes", type=whole_number, default=10, help="months, for each policy and period"
    )
    parser.add_argument("--seed", type=int, default=0, help="of both trainings")
    parser.add_argument("--engine", choices=ENGINES[:2], default="process", help="both parts at once, or not")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("demo"):
        require_seed(options.seed)
        require_room(options.out)
    console, started = Console(), time.perf_counter()
    parts: list[Part] = [
        demo_pool.PoolPart(options.out / "pool", options.labels, options.pool_episodes, options.seed),
        demo_vcc.VccPart(options.out / "vcc", options.timesteps, options.episodes, options.seed),
    ]
    how = "side by side" if options.engine == "process" else "one after the other"
    console.print(f"Two parts, {how}, a few minutes. The first run also compiles the simulators.")
    pool, vcc = map_tasks(run_part, parts, options.engine, 2)
    title = f"{demo_pool.ENV_ID}, offered load 1.0: {options.pool_episodes} held-out episodes"
    console.print(demo_page.terminal_table(demo_pool.short_table(pool), title))
    title = f"{demo_vcc.TEST.env_id}, {demo_vcc.TEST.title}: {options.episodes} months of jobs"
    console.print(demo_page.terminal_table(demo_vcc.short_table(vcc), title))
    console.print(f"{demo_pool.LEGEND} {demo_vcc.LEGEND}", style="dim")
    page = demo_page.write(options.out / PAGE, parts[0], parts[1], pool, vcc)  # type: ignore[arg-type]
    console.print(
        f"The page, with figures and commands: {page} ({time.perf_counter() - started:.0f} s)", markup=False
    )
    return 0


def run_part(part: Part) -> pd.DataFrame:
    """Run a part of the demo: a function of this module, so that other processes find it."""
    started = time.perf_counter()

    def say(what: str) -> None:
        print(f"{time.perf_counter() - started:4.0f} s  {part.called}: {what}", flush=True)

    run: Callable[[Callable[[str], None]], pd.DataFrame] = part.run
    return run(say)
