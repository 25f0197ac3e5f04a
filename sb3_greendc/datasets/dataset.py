"""Transitions that somebody else collected: what offline algorithms learn from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.config import require_class
from greendc.simulator import Observation
from sb3_greendc.datasets import npz, validation
from sb3_greendc.datasets.arrays import check_lengths, check_shapes, dataset_arguments
from sb3_greendc.datasets.d4rl_format import from_d4rl, is_d4rl, our_name
from sb3_greendc.datasets.spaces import check_in_space, space_from_json, space_to_json
from sb3_greendc.datasets.validation import parts

FORMAT_VERSION = 1
_PLAIN_ARRAYS = ("next_index", "actions", "rewards", "terminated", "truncated", "episode_id", "source_id")


@dataclass(frozen=True, eq=False)
class OfflineDataset:
    """``N`` transitions with masks, costs, both ways of ending, and where each comes from.

    Every observation is kept once, in its own dtype: the observation that follows a transition is a row of
    ``observations`` where the episode goes on there, and a row of ``final_observations`` otherwise. The rows
    of an episode are in order; those of several may interleave. Arrays may be mapped from disk.

    Make one with :meth:`from_dict`, :meth:`load`, :func:`~sb3_greendc.collect`, or from another format with
    :func:`~sb3_greendc.datasets.from_minari`, :func:`~sb3_greendc.datasets.from_trajectories` and
    :func:`~sb3_greendc.datasets.from_replay_buffer`. Building one calls :meth:`validate`.

    :param observation_space: of one observation
    :param action_space: ``Discrete`` or ``Box``
    :param observations: ``(N, ...)``, or a dict of such, in the space's dtype
    :param final_observations: ``(K, ...)`` in the same form: what follows transitions that no row follows
    :param next_index: ``(N,)`` row of the next observation: ``i < N`` of ``observations``, ``N + k`` of
        ``final_observations``
    :param actions: ``(N,)`` int64, or ``(N, ...)`` in the dtype of the ``Box``
    :param rewards: ``(N,)`` float64
    :param terminated: ``(N,)`` bool: the environment ended, nothing is to come
    :param truncated: ``(N,)`` bool: time was up, or the recording stopped
    :param episode_id: ``(N,)`` int64
    :param source_id: ``(N,)`` int64, rows of ``sources``
    :param sources: names of what acted
    :param costs: ``(N,)`` float64, or ``None``
    :param labels: further arrays ``(N, ...)`` by name, such as ``advantages`` ``(N, n_actions)``
    :param metadata: JSON values: ``env_id``, ``env_kwargs``, seeds, versions
    :param check: validate; off only for what has been validated before
    :raises ValueError: names the array that is wrong, how many rows are, and the first of them
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    observations: Observation = field(repr=False)
    final_observations: Observation = field(repr=False)
    next_index: NDArray[np.int64] = field(repr=False)
    actions: NDArray[Any] = field(repr=False)
    rewards: NDArray[np.float64] = field(repr=False)
    terminated: NDArray[np.bool_] = field(repr=False)
    truncated: NDArray[np.bool_] = field(repr=False)
    episode_id: NDArray[np.int64] = field(repr=False)
    source_id: NDArray[np.int64] = field(repr=False)
    sources: tuple[str, ...]
    costs: NDArray[np.float64] | None = field(default=None, repr=False)
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    check: InitVar[bool] = True

    def __post_init__(self, check: bool) -> None:
        object.__setattr__(self, "labels", validation.label_arrays(self.labels))
        if check:
            self.validate()

    def __len__(self) -> int:
        return len(self.actions)

    def validate(self) -> None:
        """Check spaces, lengths, sources, ends of episodes, finite values, and actions against their masks.

        :raises ValueError: names the array, how many rows are wrong, and the first of them
        """
        n = len(self)
        if n == 0:
            raise ValueError("the data set holds no transitions")
        validation.check_spaces(self.observation_space, self.action_space)
        for name in ("observations", "final_observations"):
            validation.check_kinds(name, getattr(self, name), self.observation_space)
        columns = {name: array for name, array in self._arrays().items() if not name.startswith("final_")}
        validation.check_lengths(columns, n)
        validation.check_sources(self.sources, self.source_id)
        validation.check_episodes(self.terminated, self.truncated, self.episode_id)
        validation.check_finite("rewards", self.rewards)
        if self.costs is not None:
            validation.check_finite("costs", self.costs)
        finals = parts(self.final_observations, "final_observations")
        validation.check_next_index(self.next_index, n + len(next(iter(finals.values()))))
        for name in ("observations", "final_observations"):
            validation.check_observations(name, getattr(self, name), self.observation_space)
        check_in_space("actions", self.actions, self.action_space)
        validation.check_masks(self.observations, self.actions)

    @property
    def next_observations(self) -> Observation:
        """What follows each transition, ``(N, ...)``: gathered at each call; :meth:`batch` needs less."""
        return self._gather_next(np.arange(len(self)))

    @property
    def n_episodes(self) -> int:
        """Number of episodes, cut ones included."""
        return len(np.unique(self.episode_id))

    def batch(
        self, indices: NDArray[Any] | Sequence[int], keys: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return transitions as new arrays, by the names of this class's attributes.

        :param indices: ``(B,)`` rows, in any order, repeated or not
        :param keys: only these, default: all of ``observations``, ``next_observations``, ``actions``,
            ``rewards``, ``terminated``, ``truncated``, ``episode_id``, ``source_id``, where there are any
            ``costs``, and ``labels`` (a dict)
        :raises KeyError: for an unknown key
        """
        rows = np.asarray(indices)
        if keys is None:
            keys = ["observations", "next_observations", *_PLAIN_ARRAYS[1:]]
            keys += [] if self.costs is None else ["costs"]
            keys += ["labels"] if self.labels else []
        return {key: self._gather(key, rows) for key in keys}

    def select(self, indices: NDArray[Any]) -> OfflineDataset:
        """Return a data set of whole episodes' rows or single transitions; a cut episode counts as truncated.

        Sources and labels are kept, sources without rows are dropped.

        :param indices: ``(B,)`` distinct rows, one at least; or a mask ``(N,)``
        :raises ValueError: if there are none, or one is there twice
        :raises IndexError: for a row that there is not
        """
        given = np.asarray(indices)
        rows = np.arange(len(self))[given] if given.size else given
        if not rows.size:
            raise ValueError("indices: none given; a data set holds at least one transition")
        distinct, counts = np.unique(rows, return_counts=True)
        if counts.max() > 1:
            row = distinct[counts.argmax()]
            raise ValueError(f"indices: row {row} is there {counts.max()} times; must be distinct")
        taken = self.batch(rows)
        used = np.unique(taken["source_id"])
        taken["source_id"] = np.searchsorted(used, taken["source_id"])
        return self._rebuild(taken, tuple(self.sources[i] for i in used))

    def save(self, path: str | Path) -> None:
        """Write one compressed file with checksums, whole or not at all; see :mod:`sb3_greendc.datasets.npz`.

        :param path: ends in ``.npz``
        :raises ValueError: for another ending, or a space that cannot be written
        """
        path = Path(path)
        if path.suffix != ".npz":
            raise ValueError(f"{path}: the name of a data set must end in .npz")
        arrays = self._arrays()
        members = npz.member_names(arrays)
        header = {
            "format": FORMAT_VERSION,
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
            "sources": list(self.sources),
            "metadata": dict(self.metadata),
            "names": {member: name for name, member in members.items() if member != name},
        }
        npz.write(path, {members[name]: array for name, array in arrays.items()}, header)

    @classmethod
    def load(cls, path: str | Path, mmap: bool = False) -> OfflineDataset:
        """Read a file that :meth:`save` wrote, or an ``.npz`` with the arrays that :meth:`from_dict` takes.

        The file itself is only read, never changed.

        :param path: the file
        :param mmap: keep the arrays on disk, for data that memory does not hold. The file is unpacked once,
            into a folder named by its checksum (:func:`~sb3_greendc.datasets.npz.cache_folder`)
        :raises OSError: if there is no such file
        :raises ValueError: if it is damaged, of a later version, or holds no valid data set
        """
        require_class("path", path, (str, os.PathLike), "the path of a data set")
        path = Path(path)
        digest = npz.checksum(path)
        try:
            if digest is None:
                if mmap:
                    raise ValueError("truncated, altered, or no file of save(), which mmap=True needs")
                return cls.from_dict(npz.read_foreign(path, _check_foreign))
            return cls._read(path, digest, mmap)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:  # but the first: from the header
            text = str(error) if isinstance(error, ValueError) else f"damaged header ({error!r})"
            raise ValueError(text if text.startswith(f"{path}:") else f"{path}: {text}") from error

    @classmethod
    def _read(cls, path: Path, digest: str, mmap: bool) -> OfflineDataset:
        header = npz.read_header(path)
        if header["format"] != FORMAT_VERSION:
            raise ValueError(f"format {header['format']!r}; this version reads {FORMAT_VERSION}")
        if not mmap:
            return cls._from_arrays(header, npz.read(path, _check_arrays), check=True)

        def check(arrays: Mapping[str, NDArray[Any]]) -> None:
            cls._from_arrays(header, arrays, check=True)

        return cls._from_arrays(header, npz.read_mapped(path, digest, _check_arrays, check), check=False)

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        sources: Sequence[str] | None = None,
        labels: Mapping[str, NDArray[Any]] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> OfflineDataset:
        """Make a data set of plain arrays.

        :param data: ``obs`` and ``next_obs`` (or, of ``Dict`` observations, ``obs/KEY`` and ``next_obs/KEY``
            for each key; or dicts under ``obs`` and ``next_obs``), ``actions``, ``rewards``, ``terminated``,
            ``truncated``, and optionally ``costs``, ``source_id``, ``episode_id``. Each ``(N, ...)``. Without
            ``episode_id`` the rows are taken in order and episodes end where ``terminated`` or ``truncated``
            say; a last episode that does not end is marked truncated. Or by D4RL's names: ``observations``,
            ``actions``, ``rewards``, ``terminals``, ``timeouts``, perhaps ``next_observations``, ``costs``
            (:mod:`~sb3_greendc.datasets.d4rl_format`)
        :param observation_space: default: the widest that the arrays' dtypes allow
        :param action_space: default: ``Discrete`` for whole numbers, ``Box`` of [-1, 1] or [0, 1] for others
        :param sources: names of the sources, default ``source_0``, ``source_1``, ...
        :param labels: further arrays ``(N, ...)``
        :param metadata: JSON values
        :raises ValueError: for a missing or unknown array, one that does not fit, or data that are not valid
        """
        require_class("data", data, (Mapping,), "a dict of arrays")
        data = from_d4rl(data) if is_d4rl(data) else data
        arguments = dataset_arguments(data, observation_space, action_space, sources)
        return cls(**arguments, labels=dict(labels or {}), metadata=dict(metadata or {}))

    def with_labels(self, labels: Mapping[str, NDArray[Any]]) -> OfflineDataset:
        """Return the same data with other labels."""
        return replace(self, labels=dict(labels))

    def _gather(self, key: str, rows: NDArray[Any]) -> Any:
        if key == "next_observations":
            return self._gather_next(rows)
        value = getattr(self, key) if key in self.__dataclass_fields__ else None
        if isinstance(value, Mapping):
            return {name: np.asarray(array[rows]) for name, array in value.items()}
        if not isinstance(value, np.ndarray):
            raise KeyError(f"{key!r}: not an array of this data set")
        return np.asarray(value[rows])

    def _gather_next(self, rows: NDArray[Any]) -> Observation:
        where = self.next_index[rows] - len(self)
        last = where >= 0
        here = np.where(last, 0, where + len(self))
        if isinstance(self.observations, dict):
            assert isinstance(self.final_observations, dict)
            return {
                key: _gather_both(array, self.final_observations[key], here, where, last)
                for key, array in self.observations.items()
            }
        assert isinstance(self.final_observations, np.ndarray)
        return _gather_both(self.observations, self.final_observations, here, where, last)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            **parts(self.observations, "observations"),
            **parts(self.final_observations, "final_observations"),
            **{name: getattr(self, name) for name in _PLAIN_ARRAYS},
            **({} if self.costs is None else {"costs": self.costs}),
            **{f"labels/{name}": label for name, label in self.labels.items()},
        }

    def _rebuild(self, taken: dict[str, Any], sources: tuple[str, ...]) -> OfflineDataset:
        renamed = {"observations": "obs", "next_observations": "next_obs"}
        labels = taken.pop("labels", {})
        data = {renamed.get(key, key): value for key, value in taken.items()}
        return OfflineDataset.from_dict(
            data, self.observation_space, self.action_space, sources, labels, self.metadata
        )

    @classmethod
    def _from_arrays(
        cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], check: bool
    ) -> OfflineDataset:
        names = header.get("names", {})  # of members that may not have the names of their arrays
        arrays = {names.get(member, member): array for member, array in arrays.items()}
        return cls(
            observation_space=space_from_json(header["observation_space"]),
            action_space=space_from_json(header["action_space"]),
            observations=_group(arrays, "observations"),
            final_observations=_group(arrays, "final_observations"),
            **{name: arrays[name] for name in _PLAIN_ARRAYS},
            sources=tuple(header["sources"]),
            costs=arrays.get("costs"),
            labels=labels if isinstance(labels := _group(arrays, "labels"), dict) else {},
            metadata=header["metadata"],
            check=check,
        )


def _check_foreign(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a ``ValueError`` for arrays that ``from_dict`` does not take, before any is read."""
    if not is_d4rl(shapes):
        check_shapes(shapes)
        return
    read = {name: shape for name, shape in shapes.items() if our_name(name) is not None}
    if "actions" in read:
        check_lengths(read)


def _check_arrays(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a ``ValueError`` for an array that no data set has, or of a wrong length, before any is read."""
    known = (*_PLAIN_ARRAYS, "costs", "observations", "final_observations")
    for name in shapes:
        if name not in known and not name.startswith(("observations/", "final_observations/", "labels/")):
            raise ValueError(f"unknown array {name!r}")
    for name in _PLAIN_ARRAYS:
        if name not in shapes:
            raise ValueError(f"no array {name!r}")
    check_lengths(shapes, free="final_observations")


def _gather_both(
    observations: NDArray[Any],
    finals: NDArray[Any],
    here: NDArray[Any],
    where: NDArray[Any],
    last: NDArray[np.bool_],
) -> NDArray[Any]:
    gathered: NDArray[Any] = np.asarray(observations[here])
    if last.any():
        gathered[last] = finals[where[last]]
    return gathered


def _group(arrays: Mapping[str, NDArray[Any]], name: str) -> Observation:
    """Return ``name``, or the dict of all ``name/KEY``."""
    if name in arrays:
        return arrays[name]
    prefix = f"{name}/"
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def require_data(field: str, data: object) -> None:
    """Raise a ``TypeError`` naming the field, unless it is a data set."""
    require_class(field, data, (OfflineDataset,), "an OfflineDataset")
