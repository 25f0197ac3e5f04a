"""Names that differ between trees: where objects are, and what options, keys and words are called.

One record is compared across a redesign that moves modules and renames options. All that has to know both the
old and the new name stands here. When every tree of interest has the new names, the old ones can go.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

PLACES: dict[str, tuple[str, ...]] = {
    "CRR": ("sb3_greendc:CRR",),
    "DiscountByTime": ("sb3_greendc:DiscountByTime",),
    "DiscreteSAC": ("sb3_greendc:DiscreteSAC",),
    "EpisodeRecorder": (
        "greendc.resource_pool:EpisodeRecorder",
        "greendc.resource_pool.recording:EpisodeRecorder",
    ),
    "Form": ("sb3_greendc.experiments.experiment:Budget", "sb3_greendc.experiments.experiment:Form"),
    "OfflineDataset": ("sb3_greendc:OfflineDataset", "sb3_greendc.datasets:OfflineDataset"),
    "PIDLagrangianPPO": ("sb3_greendc:PIDLagrangianPPO",),
    "RecurrentPIDLagrangianPPO": ("sb3_greendc:RecurrentPIDLagrangianPPO",),
    "Results": ("sb3_greendc.experiments.experiment:Results",),
    "Store": ("sb3_greendc.experiments.store:Store",),
    "behavioral_clone": ("sb3_greendc.bc:behavioral_clone",),
    "best_known": ("greendc.baselines:best_known",),
    "clairvoyant_optimum": ("greendc.baselines.resource_pool.cpsat:clairvoyant_optimum",),
    "collect": ("sb3_greendc:collect", "sb3_greendc.datasets:collect"),
    "concatenate": ("sb3_greendc.datasets:concatenate",),
    "cost_bound": ("greendc.baselines.vcc.bound:cost_bound",),
    "distill": ("sb3_greendc.bc:distill",),
    "evaluate": (
        "sb3_greendc:evaluate",
        "sb3_greendc.evaluation:evaluate",
        "sb3_greendc.common.evaluation:evaluate",
    ),
    "load_experiment": ("sb3_greendc.experiments.registry:load_experiment",),
    "load_pretrained": ("sb3_greendc:load_pretrained",),
    "lp_bound": ("greendc.baselines.resource_pool.lp_bound:lp_bound",),
    "make_policy": ("greendc.baselines:make_policy",),
    "make_vec_env": (
        "sb3_greendc:make_vec_env",
        "sb3_greendc.core.vec_env:make_vec_env",
        "sb3_greendc.common.vec_env:make_vec_env",
    ),
    "names": ("greendc.baselines:names",),
    "recorded_instance": ("greendc.baselines.resource_pool.instance:recorded_instance",),
    "releases": (
        "greendc.shipped.release:releases",
        "sb3_greendc.runs.pretrained:releases",
        "sb3_greendc.runs:releases",
        "sb3_greendc.pretrained:releases",
    ),
    "resize": ("sb3_greendc.bc:resize",),
    "run_tasks": ("sb3_greendc.experiments.runner:run_tasks",),
}
"""Where each object is, as ``module:attribute``: the first place that has it counts."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "floor": ("min_qos",),
    "outlook": ("lookahead",),
    "preempt": ("suspend",),
    "told": ("known_arrivals",),
}
"""Newer names of options, by the old one."""

KEYS: dict[str, str] = {
    "final_observation": "final_obs",
    "_final_observation": "_final_obs",
}
"""Old names, by the newer one, of keys of observations, infos, metrics, data sets; digests have the old."""

WORDS: dict[str, str] = {
    "best non-learning baseline": "best that does not learn",
    "distilled policy": "taught network",
    "guided rollouts": "taught network, searching",
    "known_arrivals": "told",
    "min_qos": "floor",
}
"""Old words, by the newer one, in the columns and cells of experiments' tables."""


def find(name: str) -> Any:
    """Return an object from the first of its :data:`PLACES` that has it.

    :raises ImportError: if none has; says where it was sought
    """
    for place in PLACES[name]:
        module, _, attribute = place.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError):
            continue
    raise ImportError(
        f"{name}: not in {', '.join(PLACES[name])}; add its place to PLACES in tools/golden_parts/names.py"
    )


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function with its old option names, and with newer ones where it does not know the old.

    :param function: an environment's or a policy's constructor, or anything that forwards options to one
    :param arguments: by position
    :param options: by their old names
    :raises TypeError: the function's own, for the last choice of names
    """
    choices = [(key, *OPTIONS[key]) if key in OPTIONS else (key,) for key in options]
    error: TypeError | None = None
    for names in itertools.product(*choices):
        try:
            return function(*arguments, **dict(zip(names, options.values(), strict=True)))
        except TypeError as refused:
            if "unknown option" not in str(refused) and "unexpected keyword" not in str(refused):
                raise
            error = error or refused
    assert error is not None
    raise error


def old_words(text: str) -> str:
    """Return a text in which newer words of :data:`WORDS` are replaced by the old ones."""
    for new in sorted(WORDS, key=len, reverse=True):
        text = text.replace(new, WORDS[new])
    return text
