"""A warning for models that were trained with action masks and are judged without them."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping

_EVALUATION = "stable_baselines3.common.evaluation"


def warn_of_missing_masks(metrics: Mapping[str, float], instead: str) -> None:
    """Warn if SB3's ``evaluate_policy`` plays a model that wants masks, and some of its actions were invalid.

    That function gives no masks, and no place of SB3 or sb3-contrib says so. An environment does not see who
    steps it. So the callers are looked through, at the end of an episode with invalid actions alone.

    :param metrics: of the episode; nothing is done without ``invalid_actions``
    :param instead: what invalid actions did, :attr:`greendc.simulator.Simulator.instead_of_invalid`
    """
    invalid = int(metrics.get("invalid_actions", 0.0))
    if invalid == 0 or _EVALUATION not in sys.modules:
        return
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "evaluate_policy" and frame.f_globals.get("__name__") == _EVALUATION:
            model = frame.f_locals.get("model")
            predict = getattr(model, "predict", None)
            if callable(predict) and "action_masks" in inspect.signature(predict).parameters:
                warnings.warn(
                    f"stable_baselines3's evaluate_policy gives {type(model).__name__} no action masks: "
                    f"{invalid} of its actions in this episode were invalid and {instead}. "
                    "sb3_greendc.evaluate_policy takes the same arguments and gives them",
                    stacklevel=3,
                )
            return
        frame = frame.f_back
