"""Images whose channels come last in data, as cameras give them: networks take them first.

Stable-Baselines3 puts the channels of an environment's ``uint8`` images first, with ``VecTransposeImage``.
What is recorded before that has them last. Here data follow the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.vec_env import VecTransposeImage

from sb3_greendc.datasets.dataset import OfflineDataset


def channels_first(data: OfflineDataset, like: spaces.Space[Any] | None = None) -> OfflineDataset:
    """Return data with the channels of all images first: views of the same arrays, or the data themselves.

    :param data: with images ``(N, height, width, channels)`` or ``(N, channels, height, width)``, alone or
        in ``Dict`` observations
    :param like: an observation space; images that are the same there stay as they are
    """
    space = channels_first_space(data.observation_space, like)
    if space == data.observation_space:
        return data

    def turned(observations: Any, ours: spaces.Space[Any], theirs: spaces.Space[Any]) -> Any:
        if isinstance(ours, spaces.Dict) and isinstance(theirs, spaces.Dict):
            return {key: turned(array, ours[key], theirs[key]) for key, array in observations.items()}
        return observations if ours == theirs else np.moveaxis(observations, -1, 1)

    return replace(
        data,
        observation_space=space,
        observations=turned(data.observations, space, data.observation_space),
        final_observations=turned(data.final_observations, space, data.observation_space),
        check=False,
    )


def channels_first_space(
    space: spaces.Space[Any], like: spaces.Space[Any] | None = None
) -> spaces.Space[Any]:
    """Return an observation space with the channels of all images first.

    :param space: any
    :param like: images that are the same there stay as they are
    """
    if isinstance(space, spaces.Dict):
        known = like.spaces if isinstance(like, spaces.Dict) else {}
        return _with_parts(space, lambda key, part: channels_first_space(part, known.get(key)))
    if space == like or not is_image_space(space) or is_image_space_channels_first(cast("spaces.Box", space)):
        return space
    return VecTransposeImage.transpose_space(cast("spaces.Box", space))


def space_as_recorded(space: spaces.Space[Any] | None, source: Any) -> spaces.Space[Any] | None:
    """Return an observation space with the channels of images last where arrays have them last.

    :param space: with the channels first, or ``None``
    :param source: a dict of arrays as :meth:`OfflineDataset.from_dict` takes it, or trajectories
    """
    if isinstance(space, spaces.Dict):
        return _with_parts(space, lambda key, part: _as_recorded(part, source, key))
    return None if space is None else _as_recorded(space, source, None)


def _with_parts(space: spaces.Dict, part_of: Callable[[str, spaces.Space[Any]], Any]) -> spaces.Dict:
    """Return a space with other parts, in the same order, which counts when spaces are compared."""
    changed = deepcopy(space)
    changed.spaces.update({key: part_of(key, part) for key, part in space.spaces.items()})
    return changed


def _as_recorded(space: spaces.Space[Any], source: Any, key: str | None) -> spaces.Space[Any]:
    if not is_image_space(space):
        return space
    channels, height, width = cast("spaces.Box", space).shape
    last = (height, width, channels)
    if _shape(source, key) != last or last == cast("spaces.Box", space).shape:
        return space
    return spaces.Box(0, 255, last, np.uint8)


def _shape(source: Any, key: str | None) -> tuple[int, ...] | None:
    """Return the shape of one observation, or of a part of it, in data that do not say their spaces."""
    if isinstance(source, Sequence):
        observations = source[0].obs
        source = {"obs": observations.unwrap() if hasattr(observations, "unwrap") else observations}
    for name in ("obs", "observations"):
        array = source.get(name)
        if key is not None:
            array = array.get(key) if isinstance(array, Mapping) else source.get(f"{name}/{key}")
        if array is not None:
            shape: tuple[int, ...] = np.shape(array)
            return shape[1:]
    return None
