"""What the guard against idle pools changes: the table of ``docs/evaluation.md``.

``python tools/work_conserving.py > docs/results/work_conserving.csv`` plays 256 held-out episodes of the
shipped policy at several offered loads, with the guard and without it on the same seeds (a few minutes);
with ``--markdown docs/results/work_conserving.csv`` it prints the page's table from that file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sb3_contrib.common.maskable.utils import get_action_masks

from greendc.baselines.resource_pool.work_conserving import start_where_idle
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import PolicySource, policy_sources, takes_masks
from sb3_greendc.evaluation.policy_specs import WORK_CONSERVING
from sb3_greendc.evaluation.statistics import Interval, paired_difference

SEED = 1_000_000
"""Of the first episode: beyond what any policy was trained on."""
CLASSES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Limits of the classes of QoS values."""
RATIOS = {"value": "total_job_value_ratio", "completion": "completion_ratio"}


def play(policy: PolicySource, env_id: str, load: float, n_episodes: int) -> pd.DataFrame:
    """Play an episode of each seed and return a row for each.

    Columns: ``value``, ``completion``, ``idle`` (steps in which the empty pool idled beside a job that could
    have started and been on time), ``longest`` (most such steps on end), and ``wait_0`` ... (the longest wait
    of a job in each class, in steps: until its first start, or until it could not be on time any more).

    :param policy: what acts
    :param env_id: the pool
    :param load: offered load
    :param n_episodes: seeded :data:`SEED`, ...
    """
    env = policy.prepare_env(make_vec_env(env_id, n_episodes, offered_load=load, **policy.choice))
    pools: Any = env.unwrapped
    simulator = pools.simulator
    reset, waits = simulator.reset_env, np.full((n_episodes, len(CLASSES) - 1), np.nan)
    ended = np.zeros(n_episodes, np.bool_)

    def reset_env(index: int, rng: np.random.Generator, options: Any = None) -> None:
        if simulator.truncated[index] and not ended[index]:
            waits[index] = _longest_waits(simulator.view(index))
        reset(index, rng, options)

    simulator.reset_env = reset_env
    env.seed(SEED)
    observations, actor = env.reset(), policy.policy_for(env)
    spells, idle, longest = (np.zeros(n_episodes, np.int64) for _ in range(3))
    ratios = np.zeros((n_episodes, len(RATIOS)))
    while not ended.all():
        masks = {"action_masks": get_action_masks(env)} if takes_masks(actor) else {}
        actions, _ = actor.predict(observations, deterministic=True, **masks)
        lazy = (start_where_idle(simulator, actions) != actions) & ~ended
        spells = np.where(lazy, spells + 1, 0)
        idle += lazy
        longest = np.maximum(longest, spells)
        observations, _, dones, infos = env.step(actions)
        for i in np.flatnonzero(dones & ~ended):
            ratios[i] = [infos[i]["episode_metrics"][name] for name in RATIOS.values()]
        ended |= dones
    table = pd.DataFrame(ratios, columns=list(RATIOS)).assign(idle=idle, longest=longest)
    return table.assign(**{f"wait_{k}": waits[:, k] for k in range(waits.shape[1])})


def _longest_waits(view: Any) -> NDArray[np.float64]:
    """Return the longest wait of the jobs in each class of an episode that ends now."""
    jobs = view.job_table()
    gave_up = np.minimum(jobs["latest_finish"] - jobs["duration"], view.now)
    wait = np.where(jobs["first_start"] >= 0, jobs["first_start"], gave_up) - jobs["arrival"]
    of_class = np.digitize(jobs["qos"], CLASSES[1:-1])
    return np.array([wait[of_class == k].max(initial=0) for k in range(len(CLASSES) - 1)], np.float64)


def compare(source: str, env_id: str, load: float, n_episodes: int) -> list[dict[str, Any]]:
    """Return the rows of a policy and of the same with the guard, the latter with paired differences."""
    plain, guarded = (
        play(one, env_id, load, n_episodes)
        for one in policy_sources([source, f"{WORK_CONSERVING}:{source}"], f"{env_id}-v0")
    )
    rows = []
    for guard, table in ((False, plain), (True, guarded)):
        row: dict[str, Any] = {"env_id": env_id, "policy": source, "guard": guard, "load": load}
        row |= {"episodes": n_episodes, "idle_episodes": int((table["idle"] > 0).sum())}
        row |= {"idle_steps": int(table["idle"].sum()), "longest_idle": int(table["longest"].max())}
        for name in table.columns.drop(["idle", "longest"]):
            difference = paired_difference([table[name]], [plain[name]]) if guard else Interval(0.0, 0.0, 0.0)
            digits = 5 if name in RATIOS else 2
            row[name] = round(float(table[name].mean()), digits)
            ends = (difference.estimate, difference.low, difference.high)
            for column, number in zip(("d", "low", "high"), ends, strict=True):
                row[f"{name}_{column}"] = round(number, digits)
        rows.append(row)
    return rows


def markdown(results: pd.DataFrame) -> str:
    """Return the table of a CSV: the policy as it is, and what the guard changes."""
    limits = pairwise(CLASSES)
    waits = [f"longest wait, QoS {low:g}-{high:g}" for low, high in limits]
    lines = [["policy", "load", "episodes that idle", "idle steps (longest)", *RATIOS, *waits]]
    lines.append(["---"] * len(lines[0]))
    guarded = results[results["guard"]].reset_index(drop=True)
    for i, plain in results[~results["guard"]].reset_index(drop=True).iterrows():
        row = guarded.loc[i]
        cells = [f"`{plain['policy']}`", f"{plain['load']:g}"]
        cells.append(f"{plain['idle_episodes']} of {plain['episodes']}")
        cells.append(f"{plain['idle_steps']} ({plain['longest_idle']})")
        for name in RATIOS:
            change = f"{row[f'{name}_d']:+.4f} [{row[f'{name}_low']:+.4f}, {row[f'{name}_high']:+.4f}]"
            cells.append(f"{plain[name]:.4f} {change}")
        for k in range(len(waits)):
            name = f"wait_{k}"
            change = f"{row[f'{name}_d']:+.1f} [{row[f'{name}_low']:+.1f}, {row[f'{name}_high']:+.1f}]"
            cells.append(f"{plain[name]:.1f} {change}")
        lines.append(cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the CSV, or the table of one."""
    parser = argparse.ArgumentParser(prog="work_conserving", description=str(__doc__).splitlines()[0])
    parser.add_argument("policies", nargs="*", default=["pretrained"], help="default: pretrained")
    parser.add_argument("--env", nargs="+", default=["ResourcePool-10"], help="default: ResourcePool-10")
    parser.add_argument("--loads", nargs="+", type=float, default=[0.2, 0.4, 0.6, 0.8, 1.0, 1.4])
    parser.add_argument("--episodes", type=int, default=256, help="default: %(default)s")
    parser.add_argument("--markdown", type=Path, metavar="CSV", help="print the table of this file instead")
    options = parser.parse_args(argv)
    if options.markdown is not None:
        print(markdown(pd.read_csv(options.markdown)), end="")
        return
    rows: list[dict[str, Any]] = []
    for policy in options.policies:
        for env_id in options.env:
            for load in options.loads:
                rows += compare(policy, env_id, load, options.episodes)
                print(f"{policy}, {env_id}, load {load:g}", file=sys.stderr, flush=True)
    pd.DataFrame(rows).to_csv(sys.stdout, index=False)


if __name__ == "__main__":
    main()
