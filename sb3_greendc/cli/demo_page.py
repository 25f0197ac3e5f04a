"""What the demo shows: small tables in the terminal, and one page with tables, figures and commands."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich import box
from rich.table import Table

from sb3_greendc.cli import demo_pool, demo_vcc
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.plots import intervals
from sb3_greendc.evaluation.report import Section, write_report
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.runs.models import MODEL_FILE

_POOL_TEXT = (
    "Jobs arrive without notice and need units of two resources. A job is worth something only if it "
    "finishes on time. A planner tries every action in sampled futures, which takes milliseconds. Here a "
    "network learned in about a minute what the planner thinks of every action, and decides in one pass. "
    "Guided rollouts are the planner again, with the network as its first guess. The shipped policy was "
    "distilled on more loads. All policies play the same jobs, which were not used in training. "
    "Heuristics choose among all jobs, as in the papers; distilled policies, planner and guided rollouts "
    "choose among those that can start now and be on time."
)
_VCC_TEXT = (
    "A cap on the load of each hour moves work to cleaner hours. PPO learned on months of 2019 and 2020 with "
    "the real emissions of a Californian utility. September 2019 and May 2021 were held out. A policy that "
    "emits less by leaving work late is no better: the return charges both. The baseline rolling solves a "
    "linear programme every hour."
)


def terminal_table(frame: pd.DataFrame, title: str) -> Table:
    """Return a table of text that fits 80 columns."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for k, column in enumerate(frame.columns):
        table.add_column(str(column), justify="right" if k else "left", no_wrap=True)
    for row in frame.itertuples(index=False):
        table.add_row(*map(str, row))
    return table


def write(
    path: Path,
    pool_part: demo_pool.PoolPart,
    vcc_part: demo_vcc.VccPart,
    pool: pd.DataFrame,
    vcc: pd.DataFrame,
) -> Path:
    """Write the page; return its path.

    :param path: of the page
    :param pool_part: the first part
    :param vcc_part: the second part
    :param pool: its episodes
    :param vcc: those of the second part
    """
    of_pool = summarize(pool, demo_pool.METRICS).assign(env_id=f"{demo_pool.ENV_ID}, offered load 1.0")
    of_vcc = summarize(vcc, demo_vcc.METRICS)
    image, chart = demo_pool.pictures(pool_part.model)
    shown = of_pool[of_pool["metric"].isin(("total_job_value_ratio", "on_time_ratio"))]
    carbon = of_vcc[of_vcc["metric"].isin(("carbon_change", "overdue_work"))]
    sections = [
        Section(
            "Jobs on a pool: a policy distilled from a planner",
            _POOL_TEXT,
            tables=[of_pool],
            figures=[
                (intervals(shown), "Value and jobs on time, with 95 % intervals."),
                (chart, "Who runs when, on which units: the distilled policy's first hundred steps."),
                (image, "What the policy sees in the middle of an episode."),
            ],
            code=pool_part.commands(),
        ),
        Section(
            "Cleaner hours: PPO on real emissions",
            _VCC_TEXT,
            tables=[of_vcc],
            figures=[
                (intervals(carbon), "Carbon against always_on, and work that became late, in each period."),
                (demo_vcc.week_of(vcc_part.out / MODEL_FILE), "A week of PPO's caps, loads and queues."),
                (demo_vcc.emissions_of_both_years(), "Emissions of the grid in both years, hour by hour."),
            ],
            code=vcc_part.commands(),
        ),
    ]
    write_report(path, "sb3-greendc in a few minutes", sections, [], provenance())
    return path
