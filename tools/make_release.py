"""``scripts/release.py``: make a trained model a release that ships, with a card that says how good it is."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from release_card import CHANCE, FIGURE_FILE, SCORES_FILE, draw, given, scores_of, write_card
from rich.console import Console

import greendc
from greendc.shipped.release import Release, pretrained_directory, require_release_name
from sb3_greendc.cli.common import INTERRUPTED, add_environment_options, add_trust_option, one_line_errors
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.engine import TaskError
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.secrets import arguments_without_secrets
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.bounds import add_share_of_bound
from sb3_greendc.evaluation.paired import Evaluation
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.evaluation.policy_specs import PRETRAINED
from sb3_greendc.evaluation.tables import summary_tables
from sb3_greendc.experiments.distillation import MIN_QOS_CHOICES, Distillation, require_same_spaces
from sb3_greendc.experiments.experiment import student_view
from sb3_greendc.experiments.runner import run_tasks
from sb3_greendc.experiments.store import Store
from sb3_greendc.experiments.tasks import Item, Scenario
from sb3_greendc.runs.hyperparameters import load_hyperparameters
from sb3_greendc.runs.models import SavedModel, load_model
from sb3_greendc.runs.pretrained import write_release


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog="release", description="Make a release of a trained model: tensors, settings and a card."
    )
    made = parser.add_mutually_exclusive_group(required=True)
    made.add_argument("--model", type=Path, help="a run's folder, or its model.zip")
    made.add_argument(
        "--distill",
        type=whole_number,
        metavar="N",
        help="distil a network from N decisions of rollouts instead",
    )
    parser.add_argument("--futures", type=whole_number, default=16, help="of the teacher")
    parser.add_argument(
        "--min-qos",
        type=float,
        nargs="+",
        default=list(MIN_QOS_CHOICES),
        help="of those rollouts: QoS values below which their heuristic starts no job; the best one is taken",
    )
    parser.add_argument(
        "--training-tasks",
        nargs="+",
        metavar="KEY=VALUE[,KEY=VALUE]",
        help="distil it in several settings of the first environment, equal shares, and judge it in each "
        "(offered_load=0.6 power=random,power_level=0.8)",
    )
    parser.add_argument("--name", required=True, help="name of the release, as in load_pretrained(NAME)")
    parser.add_argument(
        "--serves", nargs="+", metavar="ID", help="ids without versions, or patterns, that it acts in"
    )
    parser.add_argument(
        "--env",
        nargs="+",
        metavar="ID",
        help="environments of the card's table (default: the model's own); it is distilled in the first one",
    )
    parser.add_argument(
        "--scales", action="store_true", help="the network's weights fit environments of other sizes, too"
    )
    add_environment_options(parser)
    add_trust_option(parser)
    parser.add_argument("--baselines", nargs="+", default=[], metavar="POLICY", help="to stand beside it")
    parser.add_argument("--episodes", type=whole_number, default=64)
    parser.add_argument(
        "--seed", type=int, default=3_000_000, help="of the first episode; none seen in training or tuning"
    )
    parser.add_argument("--notes", default="", help="what users must know: limits of use")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/release"),
        help="where distilled policies are kept: the same command judges them without distilling them again "
        "(default: %(default)s)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = build_parser().parse_args(arguments)
    with one_line_errors("release"):
        require_release_name(options.name)
        if options.training_tasks and not options.distill:
            raise ValueError("--training-tasks: is what --distill trains on; a saved model has had its own")
        env_kwargs = yaml.parse_assignments(options.set, "--set")
        own = load_model(options.model, trust=options.trust) if options.model else None
        own_env = describe(own, options.name, options.serves).env_id if own else None
        cases = judged_in(options, env_kwargs, own_env)
        for (
            env_id,
            settings,
        ) in cases:  # what is wrong with them shows before hours of distillation, not after
            make_vec_env(env_id, 1, **settings).close()
            if options.baselines:
                Evaluation(
                    options.baselines, env_id, options.episodes, options.seed, settings, trust=options.trust
                )
        distillation = distillation_of(options, env_kwargs) if options.distill else None
    console = Console()
    try:
        if distillation:
            store = Store(options.out)
            run_tasks([Item(distillation)], store, "serial", None, Console(quiet=options.no_progress))
            own = distilled(store.folder(distillation), options, env_kwargs, arguments)
        assert own is not None  # argparse wants one of --model and --distill
        folder, scores = judge(own, options, cases)
    except TaskError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on, with the network if it was trained by then")
        return INTERRUPTED
    for scenario, part in scores.groupby("scenario", sort=False):
        for table in summary_tables(part, str(scenario), console.width):
            console.print(table)
    console.print(f"written: {folder}")
    return 0


def read_training_tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the settings of ``--training-tasks``; the card has a table for each."""
    return [
        yaml.parse_assignments(one.split(","), "--training-tasks") for one in options.training_tasks or []
    ]


def judged_in(
    options: argparse.Namespace, env_kwargs: Mapping[str, Any], own_env: str | None
) -> list[tuple[str, dict[str, Any]]]:
    """Return the environments of the card's tables with their settings.

    :param options: of the command
    :param env_kwargs: keyword arguments of every environment
    :param own_env: environment of the saved model, which stands in for ``--env``; ``None`` to distil one
    :raises ValueError: without an environment
    """
    env_ids = options.env or ([own_env] if own_env else [])
    if not env_ids:
        raise ValueError("--distill: needs --env, the environment to distil in")
    return [
        *((env_id, {**env_kwargs}) for env_id in env_ids),
        *((env_ids[0], {**env_kwargs, **training_task}) for training_task in read_training_tasks(options)),
    ]


def distillation_of(options: argparse.Namespace, env_kwargs: Mapping[str, Any]) -> Distillation:
    """Return the task that distils a network as experiments do.

    :param options: of the command
    :param env_kwargs: keyword arguments of the environment
    :raises ValueError: for training tasks whose spaces differ
    """
    scenario = Scenario(greendc.resolve_env_id(options.env[0]), env_kwargs)
    view = student_view(scenario)
    training_tasks = [scenario.with_kwargs(**view, **one) for one in read_training_tasks(options) or [{}]]
    require_same_spaces(training_tasks)
    return Distillation(
        tuple(training_tasks),
        options.distill,
        options.futures,
        epochs=10,
        seed=0,
        min_qos_choices=tuple(options.min_qos),
    )


def distilled(
    folder: Path, options: argparse.Namespace, env_kwargs: Mapping[str, Any], arguments: Sequence[str]
) -> SavedModel:
    """Return the distilled policy, with the record of a run.

    :param folder: of the finished task
    :param options: of the command
    :param env_kwargs: keyword arguments of the environment
    :param arguments: those of the command
    """
    saved = load_model(folder)
    env_id = saved.run["env_id"]
    view = student_view(Scenario(env_id, env_kwargs))
    # The steps that are skipped in distillation have one valid action: nothing that policies need to know.
    del view["skip_forced"]
    record = {
        "env_kwargs": {**env_kwargs, **view},
        "hyperparameters": load_hyperparameters(saved.run["algorithm"], env_id).settings,
        "command": shlex.join(["scripts/release.py", *arguments_without_secrets(without_out(arguments))]),
    }
    return replace(saved, run={**saved.run, **record})


def without_out(arguments: Sequence[str]) -> list[str]:
    """Return a command's arguments but for ``--out``, a folder of one machine that changes nothing made."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--out")
    return parser.parse_known_args(arguments)[1]


def judge(
    saved: SavedModel, options: argparse.Namespace, cases: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[Path, pd.DataFrame]:
    """Write the release, play its episodes beside the baselines', and write its card.

    :param saved: the model with the record of its run
    :param options: of the command
    :param cases: environments of the card's tables with their settings
    :return: the release's folder, and the scores that the card is made of
    """
    release = replace(describe(saved, options.name, options.serves), scales=options.scales)
    folder = pretrained_directory() / options.name
    write_release(folder, saved.model, release, "Not judged yet.\n")
    baselines = dict.fromkeys([*options.baselines, CHANCE])
    policies = [*baselines, f"{options.name}={PRETRAINED}:{options.name}"]
    parts = []
    for env_id, settings in cases:
        fits = release.scales and release.serves_id(env_id)
        policies[-1] = f"{options.name}={PRETRAINED}:{env_id if fits else options.name}"
        one = Evaluation(policies, env_id, options.episodes, options.seed, settings, trust=options.trust)
        method = "lp" if greendc.family(one.env_id) == "resource_pool" else "none"
        progress = not options.no_progress
        part = add_share_of_bound(one.run(progress), method, settings, progress=progress)
        parts.append(part.assign(scenario=f"`{one.env_id}`{given(settings)}"))
    results = pd.concat(parts)
    scores, first = scores_of(results), int(results["seed"].min())
    card = write_card(release, saved.run, scores, options.episodes, first, options.notes)
    with atomic_write(folder / SCORES_FILE) as file:
        file.write(scores.to_csv(index=False, float_format="%.6g").encode())
    save_figure(draw(release.name, scores), folder / FIGURE_FILE)
    write_release(folder, saved.model, release, card)
    return folder, scores


def describe(saved: SavedModel, name: str, serves: Sequence[str] | None) -> Release:
    """Return the description of a release of a saved model.

    :param saved: the model with the record of its run
    :param name: name of the release
    :param serves: ids without versions; default: the environment that it was trained in
    :raises ValueError: for a model without a record, or under ``VecNormalize`` of observations
    """
    run = saved.run
    missing = [key for key in ("algorithm", "hyperparameters", "env_id", "env_kwargs") if key not in run]
    if missing:
        raise ValueError(f"the model's run.json lacks {', '.join(missing)}: a release is described by it")
    if saved.normalizer is not None and saved.normalizer.norm_obs:
        raise ValueError("the model was trained on normalized observations, whose statistics a release lacks")
    plain = run["env_id"].rpartition("-v")[0]
    return Release(
        name,
        run["algorithm"],
        run["hyperparameters"],
        run["env_id"],
        run["env_kwargs"],
        tuple(serves or [plain]),
        logit_scale=run.get("logit_scale"),
    )
