"""``scripts/clone.py``: clone what was done in a data set, and show how far the clone agrees with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
from gymnasium import spaces

from greendc import baselines, family
from sb3_greendc.bc import Clone, Cloning
from sb3_greendc.bc.cloning import CloningInterrupted
from sb3_greendc.bc.models import ALGORITHMS, POLICIES
from sb3_greendc.cli.common import (
    FAILED,
    INTERRUPTED,
    Parser,
    add_wide_option,
    one_line_errors,
    print_table,
    tables_console,
)
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import atomic_write, write_or_rescue
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.evaluation.agreement import agreement
from sb3_greendc.evaluation.run_folders import AGREEMENT_FILE, HISTORY_FILE
from sb3_greendc.runs.divergence import DivergedError
from sb3_greendc.runs.folder import locked
from sb3_greendc.runs.models import MODEL_FILE
from sb3_greendc.runs.training import require_device

CLONE = "clone"
_SHOWN = ("agreement", "agreement_free", "agreement_tie", "chance")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("clone"),
        description="Behavioral cloning: a policy that does what was done in a data set.",
    )
    parser.add_argument("--data", required=True, type=Path, help=f"a file of {how_to_start('collect')}")
    parser.add_argument("--out", required=True, type=Path, help="folder for the model and its record")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that --out has already")
    parser.add_argument(
        "--policy", choices=POLICIES, default="auto", help="a perceptron, a scorer of jobs, or what fits"
    )
    parser.add_argument(
        "--algo", choices=ALGORITHMS, help="what is to go on training it; default: by the data's masks"
    )
    parser.add_argument("--epochs", type=whole_number, default=10, help="passes over the data")
    parser.add_argument("--batch-size", type=whole_number, default=256, help="rows of an update")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of the first update; falls to 0")
    parser.add_argument(
        "--policy-kwargs", nargs="+", default=[], metavar="KEY=VALUE", help="net_arch='[256, 256]' ..."
    )
    parser.add_argument("--validation", type=float, default=0.1, help="share of the episodes held out")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and held-out episodes")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument(
        "--mmap", action="store_true", help="leave the data on disk: for more than memory holds"
    )
    parser.add_argument("--episodes", type=int, default=20, help="of the agreement, for each source; 0: none")
    add_wide_option(parser)
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with ExitStack() as stack:
        return _clone(options, stack)


def _clone(options: argparse.Namespace, stack: ExitStack) -> int:
    with one_line_errors("clone"):
        stack.enter_context(locked(options.out))
        if (options.out / MODEL_FILE).exists() and not options.overwrite:
            raise ValueError(f"--out {options.out}: has a model already; --overwrite replaces it")
        require_device(options.device)
        data = OfflineDataset.load(options.data, mmap=options.mmap)
        cloning = Cloning(
            data,
            options.policy,
            algorithm=options.algo,
            policy_kwargs=yaml.parse_assignments(options.policy_kwargs, "--policy-kwargs"),
            n_epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            validation_fraction=options.validation,
            seed=options.seed,
            device=options.device,
        )
    completed = True
    try:
        clone = cloning.run(not options.no_progress)
    except CloningInterrupted as stop:
        clone, completed = stop.clone, False
        print("interrupted; the best epoch so far:")
    except DivergedError as error:
        print(f"clone: error: {error}", file=sys.stderr)
        return FAILED
    print(_describe(clone))

    def save(folder: Path) -> None:
        clone.save(folder, data=without_secrets(str(options.data)), completed=completed, **provenance())
        _write_csv(clone.history, folder / HISTORY_FILE)

    write_or_rescue(save, options.out, "the model")
    print(f"saved {options.out / MODEL_FILE}")
    if not completed:
        return INTERRUPTED
    heuristics = _heuristics(data)
    if options.episodes > 0 and heuristics and isinstance(data.action_space, spaces.Discrete):
        _show_agreement(clone, data, heuristics, options)
    return 0


def _heuristics(data: OfflineDataset) -> list[str]:
    """Return the sources that can drive: baselines of the environment that the data are of."""
    env_id = data.metadata.get("env_id")
    try:
        known = family(env_id) if env_id else None
    except ValueError:  # not registered here
        known = None
    if known is None:
        return []
    names = baselines.names(known, hindsight=True, commands=True)
    sources = {name: str(data.metadata.get("policies", {}).get(name, name)) for name in data.sources}
    return [source for source in sources.values() if source.partition(":")[0] in names]


def _show_agreement(
    clone: Clone, data: OfflineDataset, heuristics: list[str], options: argparse.Namespace
) -> None:
    policies: dict[str, Any] = {CLONE: clone.model, **{name: name for name in heuristics}}
    table = agreement(
        policies,
        heuristics,
        data.metadata["env_id"],
        options.episodes,
        env_kwargs=data.metadata.get("env_kwargs"),
        progress=not options.no_progress,
    )
    _write_csv(table, options.out / AGREEMENT_FILE)
    title = f"agreement on {options.episodes} fresh episodes of each heuristic"
    heads = ["heuristic drives", "policy", *_SHOWN]
    print_table(tables_console(options.wide), title, heads, agreement_rows(table), right=_SHOWN)
    print(f"wrote {options.out / 'agreement.csv'}")


def agreement_rows(table: pd.DataFrame) -> list[list[str]]:
    """Return the cells of the table of agreement: a row for each heuristic and policy."""
    rows = []
    for (heuristic, policy), measured in table.groupby(["heuristic", "policy"], sort=False):
        cells = {
            row["measure"]: f"{row['estimate']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            for row in measured.to_dict("records")
        }
        rows.append([str(heuristic), str(policy), *(cells[measure] for measure in _SHOWN)])
    return rows


def _describe(clone: Clone) -> str:
    best = clone.history.iloc[clone.best_epoch - 1]
    said = (
        f"{clone.algorithm}, epoch {clone.best_epoch} of {len(clone.history)}: loss {best['train_loss']:.4g}"
    )
    if best["validation_loss"] == best["validation_loss"]:
        said += f"; held-out episodes: loss {best['validation_loss']:.4g}"
    if best["validation_agreement"] == best["validation_agreement"]:
        said += f", agreement {best['validation_agreement']:.1%}"
    return said


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    with atomic_write(path) as file:
        table.to_csv(file, index=False)


if __name__ == "__main__":
    sys.exit(main())
