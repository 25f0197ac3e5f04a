"""Gymnasium environments over a :class:`~greendc.simulator.Simulator`: one, and a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from greendc.simulator import Observation, Simulator, row
from greendc.unmasked import warn_of_missing_masks
from greendc.window import close_window

try:  # Gymnasium 1.1 and later state the autoreset mode; 0.29 always reset in the same step.
    from gymnasium.vector import AutoresetMode  # type: ignore[attr-defined,unused-ignore]

    _VECTOR_METADATA: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    FINAL_OBSERVATION = "final_obs"
except ImportError:
    _VECTOR_METADATA = {}
    FINAL_OBSERVATION = "final_observation"


class SimulatorEnv(gym.Env[Any, Any]):
    """One environment: a simulator with a batch of one. Families subclass it and add ``render``."""

    window: ClassVar[str | None] = None
    """Title of the window of the mode ``"human"``, which all environments of a family share."""

    def __init__(self, simulator: Simulator, render_mode: str | None = None) -> None:
        modes = self.metadata.get("render_modes", [])
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"render_mode={render_mode!r}: must be one of {', '.join(map(repr, modes))}")
        self.simulator = simulator
        self.render_mode = render_mode
        self.observation_space = simulator.observation_space
        self.action_space = simulator.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode; ``seed`` alone fixes everything random in it and in those that follow."""
        super().reset(seed=seed)
        simulator = self.simulator
        simulator.reset_env(0, self.np_random, options)
        observations = simulator.empty_observations()
        simulator.observe(observations, 0)
        if self.render_mode == "human":
            self.render()
        return row(observations, 0, copy=False), simulator.reset_info(0)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one step; the constraint cost is ``info["cost"]``."""
        simulator = self.simulator
        observations = simulator.empty_observations()
        simulator.step(np.asarray(action)[None], observations)
        truncated = bool(simulator.truncated[0])
        info = _step_info(simulator, 0)
        if truncated:
            info["episode_metrics"] = simulator.episode_metrics(0)
            warn_of_missing_masks(info["episode_metrics"], simulator.instead_of_invalid)
        if self.render_mode == "human":
            self.render()
        return row(observations, 0, copy=False), simulator.rewards.item(), False, truncated, info

    def close(self) -> None:
        """Close the window, if there is one; another environment that draws there opens it again."""
        if self.render_mode == "human" and self.window is not None:
            close_window(self.window)


class SimulatorVectorEnv(gym.vector.VectorEnv):  # type: ignore[type-arg,unused-ignore]
    """A batch of environments stepped by one compiled call; resets in the step that ends an episode.

    Environment ``i`` of a batch seeded ``s`` is the single environment seeded ``s + i``.

    Infos are those of Gymnasium's ``SyncVectorEnv`` over the single environments (from 1.1 on, with
    ``AutoresetMode.SAME_STEP``). Where an episode ends, its last observation and info are in
    ``infos["final_obs"]`` (0.29: ``"final_observation"``) and ``infos["final_info"]``; all else in ``infos``
    is what ``reset`` says of the next episode: there is a cost where the mask ``infos["_cost"]`` is true, and
    no ``infos["cost"]`` at all in a step in which every episode ends. ``infos["final_info"]`` is an
    array of dicts on 0.29 and a :class:`FinalInfo` from 1.0 on; ``infos["final_info"][i]`` is the last info
    of environment ``i`` on all.
    """

    metadata: dict[str, Any] = dict(_VECTOR_METADATA)  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.num_envs = simulator.num_envs
        self.single_observation_space = simulator.observation_space
        self.single_action_space = simulator.action_space
        self.observation_space = batch_space(simulator.observation_space, self.num_envs)
        self.action_space = batch_space(simulator.action_space, self.num_envs)
        self.is_vector_env = True
        self.closed = False
        self.render_mode = None
        self.spec = None
        self._generators = [seeding.np_random(None)[0] for _ in range(self.num_envs)]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode in every environment.

        :param seed: ``s`` seeds environment ``i`` with ``s + i``; a sequence gives one seed each
        :param options: of the reset, the same for all
        :raises TypeError: for a seed that is no whole number
        :raises ValueError: if a sequence of seeds has the wrong length
        """
        self.seed_generators(seed)
        for i, generator in enumerate(self._generators):
            self.simulator.reset_env(i, generator, options)
        observations = self.simulator.empty_observations()
        self.simulator.observe(observations)
        return observations, _stack_infos([self.simulator.reset_info(i) for i in range(self.num_envs)])

    def seed_generators(self, seed: int | Sequence[int | None] | None) -> None:
        """Give each environment's random generator its seed, where one is given.

        :raises TypeError: for a seed that is no whole number
        :raises ValueError: if a sequence of seeds has the wrong length
        """
        if seed is None:
            return
        given: Any = seed
        if isinstance(given, int | np.integer):
            given = [given + i for i in range(self.num_envs)]
        elif isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise TypeError(f"seed={given!r}: must be a whole number, or one for each environment")
        seeds = list(given)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {len(seeds)} seeds were given for {self.num_envs} environments")
        for i, value in enumerate(seeds):
            if not isinstance(value, int | np.integer | None):
                raise TypeError(f"seed[{i}]={value!r}: must be a whole number, or None")
            if value is not None:
                self._generators[i] = seeding.np_random(int(value))[0]

    def step(  # type: ignore[override,unused-ignore]
        self, actions: Any
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Advance every environment; those whose episode ends start their next one at once."""
        simulator = self.simulator
        observations = simulator.empty_observations()
        simulator.step(np.asarray(actions), observations)
        rewards, truncated = simulator.rewards.copy(), simulator.truncated.copy()
        infos: dict[str, Any] = {}
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        for key, values in simulator.step_info.items():
            infos[key], infos[f"_{key}"] = values.copy(), everywhere
        if truncated.any():
            self._reset_finished(truncated.copy(), observations, infos)
        return observations, rewards, np.zeros(self.num_envs, dtype=np.bool_), truncated, infos

    def _reset_finished(
        self, ended: NDArray[np.bool_], observations: Observation, infos: dict[str, Any]
    ) -> None:
        """Start the next episodes; ``infos`` then has the last info of those that ended, the first of these.

        How a dict of one environment becomes arrays and masks is left to Gymnasium, whose versions differ.
        """
        simulator = self.simulator
        for key in simulator.step_info:
            infos[key][ended], infos[f"_{key}"] = 0, ~ended
        final_observations = np.full(self.num_envs, None, dtype=object)
        for i in map(int, np.flatnonzero(ended)):
            final_observations[i] = row(observations, i)
            final_info = {**_step_info(simulator, i), "episode_metrics": simulator.episode_metrics(i)}
            simulator.reset_env(i, self._generators[i])
            simulator.observe(observations, i)
            self._add_info(infos, {"final_info": final_info, **simulator.reset_info(i)}, i)
        for key in simulator.step_info:
            if not infos[f"_{key}"].any():
                del infos[key], infos[f"_{key}"]
        infos[FINAL_OBSERVATION], infos[f"_{FINAL_OBSERVATION}"] = final_observations, ended
        if isinstance(infos["final_info"], dict):
            infos["final_info"] = FinalInfo(infos["final_info"])

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(num_envs, n_actions)``, true where an action is valid."""
        return self.simulator.action_masks()

    def close(self, **kwargs: Any) -> None:
        """Nothing is held open."""
        self.closed = True


class FinalInfo(dict[str, Any]):
    """The last infos of the episodes that ended in a step: by key arrays ``(num_envs, ...)`` and masks.

    An index in place of a key gives one environment's info, ``None`` where no episode ended, so that
    ``infos["final_info"][i]["episode_metrics"]`` is written alike for all versions of Gymnasium.
    """

    def __missing__(self, key: object) -> dict[str, Any] | None:
        """Return the info of the environment with this index.

        :raises KeyError: for a key that is not there
        """
        if not isinstance(key, int | np.integer):
            raise KeyError(key)
        return _unstack(self, int(key)) or None


def _unstack(infos: dict[str, Any], index: int) -> dict[str, Any]:
    """Return one environment's part of Gymnasium's dict of arrays and masks."""
    return {
        key: _unstack(values, index) if isinstance(values, dict) else values[index]
        for key, values in infos.items()
        if f"_{key}" in infos and infos[f"_{key}"][index]
    }


def _step_info(simulator: Simulator, index: int) -> dict[str, Any]:
    """Return a copy of what the last step says of environment ``index``."""
    return {
        key: values[index].item() if values.ndim == 1 else values[index].copy()
        for key, values in simulator.step_info.items()
    }


def _stack_infos(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Turn one info per environment (all with the same keys) into Gymnasium's dict of arrays and masks."""
    stacked: dict[str, Any] = {}
    for key in infos[0]:
        stacked[key] = np.array([info[key] for info in infos])
        stacked[f"_{key}"] = np.ones(len(infos), dtype=np.bool_)
    return stacked
