"""Data sets recorded from policies in environments: baselines, saved models, anything with ``predict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import greendc
from greendc.config import require, require_class, require_one_of
from sb3_greendc.core.progress import Bar, progress_bar
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.secrets import values_without_secrets
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.datasets.dataset import OfflineDataset
from sb3_greendc.datasets.recorder import Recorder
from sb3_greendc.datasets.validation import check_spaces
from sb3_greendc.evaluation.episodes import seeded_sampling
from sb3_greendc.evaluation.policy_sources import Policy, PolicySource, policy_sources, takes_masks

LABELS = ("advantages",)
"""What policies may be asked for beside their actions."""


@dataclass(frozen=True)
class Collection:
    """What to record, checked when built, so that nothing runs before all of it fits.

    Every policy acts in environments of its own, the same number of steps in each. The episodes that are
    running when enough is recorded are cut, and count as truncated. No two environments have the same seed.

    :param policies: as :func:`~sb3_greendc.evaluation.paired.evaluate` takes them; each is a source
    :param env_id: an environment id, with or without a version
    :param transitions: how many in all; every policy gets its share
    :param seed: environment ``i`` of policy ``k`` is seeded ``seed + k * n_envs + i``
    :param env_kwargs: keyword arguments of the environment
    :param n_envs: environments side by side; few of them record whole episodes, many are quicker
    :param deterministic: ask policies for their most likely action
    :param labels: further arrays to keep: ``"advantages"``, of policies with a method of that name, which
        then take the action of the greatest one (the lowest of equals)
    :param teacher: whose labels are kept in place of the policies' own: these act as they do, and the data
        say what the teacher would do where they come to (DAgger: Ross, Gordon, Bagnell, AISTATS 2011)
    :param folder: keep observations in files in this folder while recording, for data that memory does not
        hold; they are gone when the data set is
    :param trust: load saved models that hold pickled code, too, and run it
    :raises ValueError: for an unknown id, policy, label or keyword value, an environment of spaces that data
        sets do not have, or models of other spaces
    :raises TypeError: for an unknown keyword argument of the environment
    """

    policies: Mapping[str, Policy] | Sequence[Policy]
    env_id: str
    transitions: int
    seed: int = 0
    env_kwargs: Mapping[str, Any] | None = None
    n_envs: int = 16
    deterministic: bool = True
    labels: Sequence[str] = ()
    folder: Path | None = None
    trust: bool = False
    teacher: Policy | None = None

    def __post_init__(self) -> None:
        for name in ("transitions", "seed", "n_envs"):
            require_class(name, getattr(self, name), (int, np.integer), "a whole number")
        require(self.seed >= 0, "seed", self.seed, "0 or more")
        require(self.n_envs >= 1, "n_envs", self.n_envs, "1 or more")
        for label in self.labels:
            require_one_of("label", label, LABELS)
        object.__setattr__(self, "env_id", greendc.resolve_env_id(self.env_id))
        object.__setattr__(self, "env_kwargs", dict(self.env_kwargs or {}))
        actors = self.actors()
        require(
            self.transitions >= len(actors),
            "transitions",
            self.transitions,
            "at least the number of policies",
        )
        if self.teacher is not None and not self.labels:
            raise ValueError(f"teacher {self.teacher!r}: no label is asked for")
        for actor in actors:
            raw = self._make_env(1)
            try:
                check_spaces(raw.observation_space, raw.action_space)
            except ValueError as error:
                raise ValueError(f"{self.env_id}: {error}") from error
            env = actor.prepare_env(raw)
            policy, labelling = actor.policy_for(env), self._labelling(env)
            name = actor.name if labelling is None else str(self.teacher)
            for label in self.labels:
                if not hasattr(labelling or policy, label):
                    raise ValueError(f"label {label!r}: policy {name!r} has no {label}")
            env.close()

    def actors(self) -> list[PolicySource]:
        """Return the policies, each with its name.

        :raises ValueError: if there are none, or several of one name
        """
        if not self.policies:
            raise ValueError("policies: none given")
        found = policy_sources(self.policies, self.env_id, self.trust)
        names = [actor.name for actor in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"policies: {twice[0]!r} stands for several; give each a name of its own")
        return found

    def _labelling(self, env: VecEnv) -> Any:
        """Return the teacher in a batch of environments, if there is one."""
        if self.teacher is None:
            return None
        (teacher,) = policy_sources([self.teacher], self.env_id, self.trust)
        return teacher.policy_for(teacher.prepare_env(env))

    def run(self, progress: bool = False) -> OfflineDataset:
        """Record, and return the data.

        After Ctrl-C these are the transitions so far, and their metadata say ``"interrupted": True``.
        Transitions with values outside their space are left out, with a warning; metadata count them as
        ``"left_out"``.

        :param progress: show a progress bar
        :raises KeyboardInterrupt: after Ctrl-C, if there are none yet
        :raises ValueError: if no transition is valid
        :raises OSError: if :attr:`folder` cannot be written, or its disk has no room for the observations
        """
        actors = self.actors()
        env = self._make_env(1)
        recorder = Recorder(self.transitions, env.observation_space, env.action_space, self.folder)
        env.close()
        shares = _shares(self.transitions, len(actors))
        interrupted = False
        with progress_bar(self.transitions, "transition", disable=not progress) as bar:
            try:
                for k, (actor, share) in enumerate(zip(actors, shares, strict=True)):
                    bar.set_description(actor.name)
                    self._run_policy(k, actor, share, recorder, bar)
            except KeyboardInterrupt:
                if not recorder.recorded.any():
                    raise
                interrupted = True
        metadata = {
            "env_id": self.env_id,
            "env_kwargs": values_without_secrets(self.env_kwargs),
            "seed": self.seed,
            "n_envs": self.n_envs,
            "deterministic": self.deterministic,
            "policies": {actor.name: actor.source for actor in actors},
            **({} if self.teacher is None else {"teacher": str(self.teacher)}),
            **({"interrupted": True} if interrupted else {}),
            **provenance(),
        }
        return recorder.finish([actor.name for actor in actors], metadata)

    def _run_policy(self, k: int, actor: PolicySource, share: int, recorder: Recorder, bar: Bar) -> None:
        n_envs = min(self.n_envs, share)
        raw = self._make_env(n_envs)
        seen = actor.prepare_env(raw)
        normalizer = seen if isinstance(seen, VecNormalize) else None
        policy: Any = actor.policy_for(seen)
        labelling = self._labelling(raw)
        seed = self.seed + k * self.n_envs
        raw.seed(seed)
        recorder.begin(k, _shares(share, n_envs))
        with seeded_sampling(policy, seed, n_envs):
            self._act(policy, labelling, raw, normalizer, recorder, bar)
        raw.close()

    def _act(
        self,
        policy: Any,
        labelling: Any,
        raw: VecEnv,
        normalizer: VecNormalize | None,
        recorder: Recorder,
        bar: Bar,
    ) -> None:
        masked = is_masking_supported(raw) and takes_masks(policy)
        observations: Any = raw.reset()
        starts = np.ones(raw.num_envs, dtype=np.bool_)
        state = None
        while recorder.running:
            labels = {label: getattr(labelling or policy, label)(observations) for label in self.labels}
            if labelling is None and "advantages" in labels:
                actions = np.nanargmax(labels["advantages"], axis=1)
            else:
                masks = {"action_masks": get_action_masks(raw)} if masked else {}
                shown = observations if normalizer is None else normalizer.normalize_obs(observations)
                actions, state = policy.predict(
                    shown, state=state, episode_start=starts, deterministic=self.deterministic, **masks
                )
            recorder.before(observations, actions, labels)
            observations, rewards, starts, infos = raw.step(actions)
            exact = raw.simulator.rewards if isinstance(raw, SimulatorVecEnv) else rewards
            bar.update(recorder.after(observations, exact, starts, infos))

    def _make_env(self, n_envs: int) -> VecEnv:
        return make_vec_env(self.env_id, n_envs, self.seed, **(self.env_kwargs or {}))


def collect(
    policies: Mapping[str, Policy] | Sequence[Policy],
    env_id: str,
    transitions: int,
    seed: int = 0,
    *,
    progress: bool = False,
    **options: Any,
) -> OfflineDataset:
    """Record a data set; :class:`Collection` explains the parameters.

    :param policies: what acts; each is a source
    :param env_id: an environment id
    :param transitions: how many in all
    :param seed: of the first environment
    :param progress: show a progress bar
    :param options: further parameters of :class:`Collection`
    """
    return Collection(policies, env_id, transitions, seed, **options).run(progress)


def _shares(total: int, parts: int) -> list[int]:
    """Split a number into parts that differ by one at most."""
    return [total // parts + (k < total % parts) for k in range(parts)]
