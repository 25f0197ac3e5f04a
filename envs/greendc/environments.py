"""Gymnasium environments over a :class:`~greendc.simulator.Simulator`: one, and a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from greendc.simulator import Observation, Simulator, row
from greendc.unmasked import warn_of_missing_masks

try:  # Gymnasium 1.1 and later state the autoreset mode; 0.29 always reset in the same step.
    from gymnasium.vector import AutoresetMode  # type: ignore[attr-defined,unused-ignore]

    _VECTOR_METADATA: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    FINAL_OBSERVATION = "final_obs"
except ImportError:
    _VECTOR_METADATA = {}
    FINAL_OBSERVATION = "final_observation"


class SimulatorEnv(gym.Env[Any, Any]):
    """One environment: a simulator with a batch of one. Families subclass it and add ``render``."""

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
        info: dict[str, Any] = {
            key: values.item() if values.ndim == 1 else values[0].copy()
            for key, values in simulator.step_info.items()
        }
        if truncated:
            info["episode_metrics"] = simulator.episode_metrics(0)
            warn_of_missing_masks(info["episode_metrics"])
        if self.render_mode == "human":
            self.render()
        return row(observations, 0, copy=False), simulator.rewards.item(), False, truncated, info


class SimulatorVectorEnv(gym.vector.VectorEnv):  # type: ignore[type-arg,unused-ignore]
    """A batch of environments stepped by one compiled call; resets in the step that ends an episode.

    Environment ``i`` of a batch seeded ``s`` is the single environment seeded ``s + i``. The last
    observation and info of an episode are in ``infos["final_obs"]`` and ``infos["final_info"]``
    (``"final_observation"`` on Gymnasium 0.29), as Gymnasium's own vector environments put them.
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
        :raises ValueError: if a sequence of seeds has the wrong length
        """
        self.seed_generators(seed)
        for i, generator in enumerate(self._generators):
            self.simulator.reset_env(i, generator, options)
        observations = self.simulator.empty_observations()
        self.simulator.observe(observations)
        return observations, _stack_infos([self.simulator.reset_info(i) for i in range(self.num_envs)])

    def seed_generators(self, seed: int | Sequence[int | None] | None) -> None:
        """Give each environment's random generator its seed, where one is given."""
        if seed is None:
            return
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {len(seeds)} seeds were given for {self.num_envs} environments")
        for i, value in enumerate(seeds):
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
            self._reset_finished(np.flatnonzero(truncated), observations, infos)
        return observations, rewards, np.zeros(self.num_envs, dtype=np.bool_), truncated, infos

    def _reset_finished(
        self, finished: NDArray[np.intp], observations: Observation, infos: dict[str, Any]
    ) -> None:
        final_observations = np.full(self.num_envs, None, dtype=object)
        final_infos = np.full(self.num_envs, None, dtype=object)
        mask = np.zeros(self.num_envs, dtype=np.bool_)
        mask[finished] = True
        for i in finished:
            final_observations[i] = row(observations, int(i))
            final_infos[i] = {key: values[i] for key, values in self.simulator.step_info.items()}
            final_infos[i]["episode_metrics"] = self.simulator.episode_metrics(int(i))
        for i in finished:
            self.simulator.reset_env(int(i), self._generators[i])
            self.simulator.observe(observations, int(i))
        infos[FINAL_OBSERVATION], infos[f"_{FINAL_OBSERVATION}"] = final_observations, mask
        infos["final_info"], infos["_final_info"] = final_infos, mask

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(num_envs, n_actions)``, true where an action is valid."""
        return self.simulator.action_masks()

    def close(self, **kwargs: Any) -> None:
        """Nothing is held open."""
        self.closed = True


def _stack_infos(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Turn one info per environment (all with the same keys) into Gymnasium's dict of arrays and masks."""
    stacked: dict[str, Any] = {}
    for key in infos[0]:
        stacked[key] = np.array([info[key] for info in infos])
        stacked[f"_{key}"] = np.ones(len(infos), dtype=np.bool_)
    return stacked
