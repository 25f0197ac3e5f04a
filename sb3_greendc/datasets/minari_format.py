"""Minari data sets, read and written.

Each step's cost, source and labels go into the episodes' ``infos``, under ``cost``, ``source_id`` and
``labels``. As Minari's own collector does it, ``infos`` have one entry more than there are steps, the first
being that of the reset; it is zero here.
"""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

import greendc
from greendc.config import require
from sb3_greendc.datasets.dataset import OfflineDataset, require_data
from sb3_greendc.datasets.episodes import episodes, join_episodes
from sb3_greendc.datasets.validation import check_spaces

_METADATA = "sb3_greendc"
_ID = re.compile(r"([-\w]{2,}/|[-\w]+/([-\w]+/)+)?[-\w]+-v\d+")
"""Minari takes a namespace of two characters or more, nested or not, and writes before it looks."""


def import_minari() -> Any:
    """Return the module.

    :raises ImportError: with the line that installs it
    """
    try:
        import minari
        import minari.data_collector
    except ImportError as error:
        raise ImportError("Minari data sets need Minari: pip install 'sb3-greendc[minari]'") from error
    return minari


def require_id(dataset_id: str, field: str = "dataset_id") -> None:
    """Check that an id is one that Minari reads: it also writes others, and lists no data set from then on.

    :param dataset_id: of the data set
    :param field: of the error
    :raises ValueError: if it is malformed
    """
    allowed = "an id such as NAMESPACE/NAME-v0, the namespace of two characters or more"
    require(_ID.fullmatch(dataset_id) is not None, field, dataset_id, allowed)


def is_taken(dataset_id: str) -> bool:
    """Tell whether there is a local data set of this id, whatever else lies beside it.

    :raises ImportError: if Minari is not installed
    """
    import_minari()
    from minari.storage.datasets_root_dir import get_dataset_path

    return bool(get_dataset_path(dataset_id).exists())


def from_minari(dataset: Any) -> OfflineDataset:
    """Return a Minari data set, or the local one of an id, as a data set of ours.

    Costs, sources and labels are found where :func:`to_minari` puts them; costs also where others have
    ``infos["cost"]``, 0 in episodes without it. Where the data set knows its environment, ``metadata`` has
    ``env_id`` and ``env_kwargs``.

    What Minari's ``combine_datasets`` made has one source, with a warning: it keeps no names of sources and
    no labels, and the numbers of the parts' sources are the same.

    :param dataset: a ``minari.MinariDataset``, or its id
    :raises ImportError: if Minari is needed and not installed
    :raises TypeError: for something else
    :raises ValueError: if there is no such data set, it holds no episode, or it is not valid
    """
    if isinstance(dataset, str):
        minari = import_minari()
        try:
            dataset = minari.load_dataset(dataset)
        except FileNotFoundError as error:
            raise ValueError(f"Minari data set {dataset!r}: there is none of this id here") from error
    if not hasattr(dataset, "iterate_episodes"):
        raise TypeError(f"dataset of type {type(dataset).__name__}: must be a Minari data set, or its id")
    check_spaces(dataset.observation_space, dataset.action_space)
    observations, infos = [], []
    columns: dict[str, list[Any]] = {"actions": [], "rewards": [], "terminated": [], "truncated": []}
    for episode in dataset.iterate_episodes():
        observations.append(episode.observations)
        columns["actions"].append(np.asarray(episode.actions))
        columns["rewards"].append(np.asarray(episode.rewards))
        columns["terminated"].append(np.asarray(episode.terminations, dtype=np.bool_))
        columns["truncated"].append(np.asarray(episode.truncations, dtype=np.bool_))
        infos.append(episode.infos or {})
    if not observations:
        raise ValueError("the Minari data set holds no episode")
    lengths = [len(actions) for actions in columns["actions"]]
    if any("cost" in info for info in infos):
        columns["costs"] = [
            _of_steps(info.get("cost", np.zeros(n)), n) for info, n in zip(infos, lengths, strict=True)
        ]
    combined = dataset.storage.metadata.get("combined_datasets", ())
    if len(combined) > 0 and any("source_id" in info for info in infos):
        warnings.warn(
            f"Minari data set {dataset.id!r}: of {', '.join(combined)}, whose sources and labels Minari "
            "does not keep apart, so that all is of one source; concatenate([from_minari(id), ...]) does",
            stacklevel=2,
        )
    elif all("source_id" in info for info in infos):
        columns["source_id"] = [
            _of_steps(info["source_id"], n) for info, n in zip(infos, lengths, strict=True)
        ]
    known = json.loads(dataset.storage.metadata.get(_METADATA, "{}"))
    sources = known.get("sources")
    if sources is not None and "source_id" in columns:  # a part of a data set may lack some of them
        used = np.unique(np.concatenate(columns["source_id"]))
        if used[0] >= 0 and used[-1] < len(sources):  # else the data are not valid, which is said below
            columns["source_id"] = [np.searchsorted(used, ids) for ids in columns["source_id"]]
            sources = [sources[i] for i in used]
    labels = {
        name: np.concatenate(
            [_of_steps(info["labels"][name], n) for info, n in zip(infos, lengths, strict=True)]
        )
        for name in known.get("labels", [])
    }
    return OfflineDataset.from_dict(
        join_episodes(observations, columns),
        dataset.observation_space,
        dataset.action_space,
        sources,
        labels,
        known.get("metadata", {"minari_id": dataset.id, **_environment_of(dataset)}),
    )


def to_minari(data: OfflineDataset, dataset_id: str, **kwargs: Any) -> Any:
    """Create a local Minari data set and return it. Only the order of interleaved episodes is lost.

    Minari's ``recover_environment`` makes the environment that ``data.metadata`` name, with the same keyword
    arguments, as long as those are JSON values; else, and without an ``env_id``, it has none to make.

    :param data: whole episodes
    :param dataset_id: ``NAMESPACE/NAME-v0``, of none that exists
    :param kwargs: of ``minari.create_dataset_from_buffers``: ``author``, ``description``, ...
    :raises ImportError: if Minari is not installed
    :raises ValueError: if episodes are not whole, or the id is taken or malformed
    """
    require_data("data", data)
    minari = import_minari()
    require_id(dataset_id)
    create = minari.create_dataset_from_buffers
    if (
        "jpeg_encoding" in inspect.signature(create).parameters
    ):  # since Minari 0.5.4; images were never lossy before
        kwargs.setdefault("jpeg_encoding", False)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=number,
            observations=episode.observations,
            actions=data.actions[episode.rows],
            rewards=data.rewards[episode.rows],
            terminations=data.terminated[episode.rows],
            truncations=data.truncated[episode.rows],
            infos=_infos(data, episode.rows),
        )
        for number, episode in enumerate(episodes(data))
    ]
    kwargs.setdefault("env", _spec_of(data.metadata))
    with warnings.catch_warnings():
        # It warns of every field left open: author, e-mail, code, algorithm.
        warnings.filterwarnings("ignore", message=".*is (set to )?None.*")
        dataset = create(
            dataset_id,
            buffers,
            observation_space=data.observation_space,
            action_space=data.action_space,
            **kwargs,
        )
    known = {"sources": list(data.sources), "labels": sorted(data.labels), "metadata": dict(data.metadata)}
    dataset.storage.update_metadata({_METADATA: json.dumps(known, default=_plain)})
    return minari.load_dataset(dataset_id)


def _plain(value: Any) -> Any:
    """Return arrays and scalars of NumPy as JSON values, other objects as text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _spec_of(metadata: Mapping[str, Any]) -> EnvSpec | None:
    """Return the specification of the environment that the data come from, ``None`` if it is not known."""
    if not isinstance(metadata.get("env_id"), str):
        return None
    try:
        env_kwargs = json.loads(json.dumps(dict(metadata.get("env_kwargs") or {})))
        spec = gym.spec(greendc.resolve_env_id(metadata["env_id"]))
    except (TypeError, ValueError):  # no JSON values, or an id that is not known here
        return None
    # The entry points of batches need not be texts, which is all that Minari can write.
    return replace(spec, kwargs={**spec.kwargs, **env_kwargs}, vector_entry_point=None)


def _environment_of(dataset: Any) -> dict[str, Any]:
    spec = getattr(getattr(dataset, "spec", None), "env_spec", None)
    return {} if spec is None else {"env_id": spec.id, "env_kwargs": dict(spec.kwargs)}


def _infos(data: OfflineDataset, rows: NDArray[np.int64]) -> dict[str, Any]:
    infos: dict[str, Any] = {"source_id": _with_reset(data.source_id[rows])}
    if data.costs is not None:
        infos["cost"] = _with_reset(data.costs[rows])
    if data.labels:
        infos["labels"] = {name: _with_reset(label[rows]) for name, label in data.labels.items()}
    return infos


def _with_reset(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros_like(values[:1]), values])


def _of_steps(values: Any, n: int) -> NDArray[Any]:
    """Return the entries of an episode's ``n`` steps, without that of its reset."""
    array = np.asarray(values)
    return array[len(array) - n :]
