"""``VecNormalize`` as JSON: its settings and statistics, exactly, without its environment."""

from __future__ import annotations

import json
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc.core.safe_values import Decoder, Encoder, NotExpressibleError

LARGEST_FILE = 64 * 2**20
_SETTINGS: dict[str, Any] = {
    "training": bool,
    "norm_obs": bool,
    "norm_reward": bool,
    "clip_obs": (int, float),
    "clip_reward": (int, float),
    "gamma": (int, float),
    "epsilon": (int, float),
    "norm_obs_keys": (list, type(None)),
    "observation_space": spaces.Space,
    "action_space": spaces.Space,
    "num_envs": int,
}
_STATISTICS: dict[str, Any] = {"obs_rms": (RunningMeanStd, dict), "ret_rms": RunningMeanStd}


def normalizer_to_json(normalizer: VecNormalize) -> dict[str, Any]:
    """Return settings and statistics as JSON values.

    :raises ValueError: if it is of a class of one's own, or its spaces are
    """
    if type(normalizer) is not VecNormalize:
        raise NotExpressibleError(
            f"{type(normalizer).__qualname__}: only VecNormalize itself is kept as JSON"
        )
    state, encoder = vars(normalizer), Encoder(inline=True)  # of one without an environment, too
    return {name: encoder.encode(state[name], name) for name in (*_SETTINGS, *_STATISTICS) if name in state}


def normalizer_from_json(text: bytes) -> VecNormalize:
    """Return the ``VecNormalize``, without an environment.

    :param text: what :func:`normalizer_to_json` returned, as a file's bytes
    :raises ValueError: if it is no such file
    """
    if len(text) > LARGEST_FILE:
        raise ValueError(f"of {len(text):,} bytes: must be {LARGEST_FILE:,} at most")
    try:
        state = Decoder({}).decode(json.loads(text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    kinds = {**_SETTINGS, **_STATISTICS}
    if not isinstance(state, dict) or not set(_SETTINGS) <= set(state) <= set(kinds):
        raise ValueError(f"must hold {', '.join(kinds)}")
    for name, value in state.items():
        if not isinstance(value, kinds[name]):
            raise ValueError(f"{name}: {type(value).__name__} there, which it cannot be")
    if state["norm_obs"] and "obs_rms" not in state:
        raise ValueError("obs_rms: missing")
    normalizer: VecNormalize = VecNormalize.__new__(VecNormalize)
    normalizer.__setstate__(state)
    return normalizer
