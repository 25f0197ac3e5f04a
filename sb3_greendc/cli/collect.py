"""``scripts/collect.py``: record a data set from baselines and trained models."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import greendc
from sb3_greendc.cli.common import (
    INTERRUPTED,
    Parser,
    add_environment_options,
    add_trust_option,
    one_line_errors,
)
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import require_room, sweep, write_or_rescue
from sb3_greendc.datasets import OfflineDataset, to_minari
from sb3_greendc.datasets.minari_format import is_taken, require_id
from sb3_greendc.evaluation.collection import LABELS, Collection
from sb3_greendc.runs.training import training_split

FORMATS = ("npz", "minari")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("collect"), description="Record what policies do, as data for offline learning."
    )
    parser.add_argument("--env", required=True, help="environment id, with or without a version: VCC-2019")
    parser.add_argument(
        "--policies",
        nargs="+",
        required=True,
        metavar="POLICY",
        help="names of baselines, and saved models: a model.zip, a run's folder, or ALGO:model.zip",
    )
    parser.add_argument(
        "--transitions", type=whole_number, required=True, help="in all; every policy gets its share"
    )
    parser.add_argument("--out", required=True, help="the file, x.npz; with --format minari an id: mine/x-v0")
    parser.add_argument("--format", choices=FORMATS, default="npz", help="of the data set")
    parser.add_argument("--overwrite", action="store_true", help="replace --out if it is there already")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first environment; the next have the next"
    )
    parser.add_argument("--n-envs", type=whole_number, default=16, help="environments side by side")
    add_environment_options(parser)
    add_trust_option(parser)
    parser.add_argument(
        "--label", nargs="+", default=[], choices=LABELS, help="keep what planners value each action at"
    )
    parser.add_argument(
        "--teacher",
        metavar="POLICY",
        help="whose labels are kept, where --policies act (DAgger)",
    )
    parser.add_argument("--stochastic", action="store_true", help="sample actions instead of the most likely")
    parser.add_argument(
        "--scratch", type=Path, metavar="DIR", help="record into files in DIR: for more than memory holds"
    )
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("collect"):
        _check_out(options)
        env_id = greendc.resolve_env_id(options.env)
        env_kwargs = yaml.parse_assignments(options.set, "--set")
        collection = Collection(
            options.policies,
            env_id,
            options.transitions,
            options.seed,
            {**training_split(env_id, env_kwargs), **env_kwargs},
            options.n_envs,
            not options.stochastic,
            options.label,
            options.scratch,
            options.trust,
            options.teacher,
        )
    started = time.perf_counter()
    with one_line_errors("collect"):
        data = collection.run(not options.no_progress)
    completed = not data.metadata.get("interrupted", False)
    if not completed:
        print("interrupted; what had been recorded:")
    print(_describe(data, time.perf_counter() - started))
    if options.format == "minari":
        _write_minari(data, options.out)
    else:
        sweep(Path(options.out).parent)
        write_or_rescue(data.save, Path(options.out), "the data set")
    print(f"wrote {options.out}")
    return 0 if completed else INTERRUPTED


def _write_minari(data: OfflineDataset, dataset_id: str) -> None:
    """Write a Minari data set; what Minari does not take is kept as a file of ours.

    :raises RescuedError: naming that file
    """
    place = Path(f"{dataset_id}.npz")

    def write(path: Path) -> None:
        if path != place:
            data.save(path)
            return
        try:
            to_minari(data, dataset_id)
        except Exception as error:  # Minari's, of any kind; a recording may have taken hours
            raise OSError(f"no Minari data set: {error}") from error

    write_or_rescue(write, place, "the data set")


def _check_out(options: argparse.Namespace) -> None:
    """Refuse what could not be written, before hours of recording.

    :raises ValueError: if ``--out`` is there already, or is no name for the format
    :raises ImportError: if the format needs Minari, and it is not installed
    :raises OSError: if its folder cannot be written
    """
    if options.format == "minari":
        require_id(options.out, "--out")
        taken = is_taken(options.out)
        if taken and options.overwrite:
            raise ValueError(f"--out {options.out}: delete the data set with `minari delete` first")
    else:
        if not options.out.endswith(".npz"):
            raise ValueError(f"--out {options.out}: the name of a data set must end in .npz")
        if Path(options.out).is_dir():
            raise ValueError(f"--out {options.out}: is a folder; must be a file")
        require_room(Path(options.out).parent)
        taken = Path(options.out).exists() and not options.overwrite
    if taken:
        raise ValueError(f"--out {options.out}: exists already; --overwrite replaces it")


def _describe(data: OfflineDataset, seconds: float) -> str:
    lines = [f"{len(data):,} transitions of {data.n_episodes:,} episodes in {seconds:.1f} s"]
    for k, name in enumerate(data.sources):
        rows = data.source_id == k
        mean = float(np.mean(data.rewards[rows]))
        lines.append(f"  {name}: {int(rows.sum()):,} transitions, mean reward {mean:.4g}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
