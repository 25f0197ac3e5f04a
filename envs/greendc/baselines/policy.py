"""What every baseline is: a policy with Stable-Baselines3's ``predict``, bound to a simulator."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from greendc.simulator import Observation, Simulator

SimulatorT = TypeVar("SimulatorT", bound=Simulator)


def draws_of(seed: int, episode: int) -> np.random.Generator:
    """Return the draws of a batch of episodes; see :meth:`BaselinePolicy.begin_at`.

    :param seed: of the policy
    :param episode: number of the batch's first episode
    """
    return np.random.default_rng(seed if episode == 0 else [seed, episode])


class BaselinePolicy(abc.ABC, Generic[SimulatorT]):
    """A rule that acts on a simulator's environments, to stand beside learned policies.

    It goes wherever something with ``predict`` does (SB3's ``evaluate_policy``, data collection), and, since
    it can be called, into imitation's ``rollout.rollout``. Row i of a batch of observations belongs to
    environment i of the simulator.

    :param simulator: the simulator behind the environment or batch that the policy is to act in
    """

    reads_state = False
    """Whether it reads the simulator's state; such a policy acts in all its environments at once."""

    def __init__(self, simulator: SimulatorT) -> None:
        self.simulator = simulator

    def predict(
        self,
        observation: Observation,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions, as SB3's ``predict`` does.

        :param observation: one observation, or a batch ``(n, ...)`` of them
        :param state: returned as it came; what a policy must remember, it keeps itself
        :param episode_start: ``(n,)`` whether an episode begins; not needed, since the simulator knows
        :param deterministic: makes no difference
        :return: one action, or ``(n, ...)`` of them, and ``state``
        :raises ValueError: if the observation has another shape than the simulator's, or if the policy
            reads the simulator's state and the batch is not that of its environments
        """
        batch, single = self._as_batch(observation)
        rows = len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)
        if self.reads_state and rows != self.simulator.num_envs:
            raise ValueError(
                f"observation: {rows} row(s), but the policy reads the state of a simulator with "
                f"{self.simulator.num_envs} environments: must be one row for each"
            )
        actions = self.act(batch)
        return (np.squeeze(actions, axis=0) if single else actions), state

    def begin_at(self, episode: int) -> None:
        """Take draws of its own for the batch of episodes that begins with the one of this number.

        Else a policy that is made for each batch would draw the same in all. Most policies draw nothing.
        """

    def __call__(
        self,
        observations: Observation,
        states: tuple[NDArray[Any], ...] | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Do what :meth:`predict` does: the form in which imitation takes policies that are none of SB3's."""
        return self.predict(observations, states, episode_starts)

    @abc.abstractmethod
    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the actions ``(n, *action_space.shape)`` for a batch of observations."""

    def _as_batch(self, observation: Observation) -> tuple[Observation, bool]:
        """Return the observations as a batch, and whether only one was given."""
        space = self.simulator.observation_space
        if isinstance(observation, dict):
            shape = {key: value.shape for key, value in observation.items()}
            one = {key: part.shape for key, part in space.spaces.items()}  # type: ignore[attr-defined]
            if shape == one:
                return {key: value[None] for key, value in observation.items()}, True
            fits = set(shape) == set(one) and all(shape[key][1:] == one[key] for key in one)
        else:
            if observation.shape == space.shape:
                return observation[None], True
            shape, one = observation.shape, space.shape  # type: ignore[assignment]
            fits = observation.shape[1:] == space.shape
        if not fits:
            raise ValueError(f"observation of shape {shape}: must be {one}, or a batch of such")
        return observation, False
