"""Recording environments that others wrote: their spaces, their costs, and steps that break their word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.evaluation.collection import Collection, collect

STEPS = 10


class Own(gym.Env[Any, Any]):
    """Counts its steps; what each of them gives is changed by its number.

    :param observations: by step, in place of its number
    :param rewards: by step, in place of 1
    :param costs: by step; others report none
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        observations: dict[int, float] | None = None,
        rewards: dict[int, float] | None = None,
        costs: dict[int, float] | None = None,
    ) -> None:
        self.observation_space = observation_space or spaces.Box(0, STEPS, (1,), np.float32)
        self.action_space = action_space or spaces.Discrete(2)
        self.observations, self.rewards, self.costs = observations or {}, rewards or {}, costs or {}
        self.t = 0

    def _observation(self) -> Any:
        if not isinstance(self.observation_space, spaces.Box):
            return self.observation_space.sample()
        return np.float32([self.observations.get(self.t, self.t)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.t = 0
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        info = {"cost": self.costs[self.t]} if self.t in self.costs else {}
        reward = self.rewards.get(self.t, 1.0)
        self.t += 1
        return self._observation(), reward, False, self.t == STEPS, info


class Count:
    """Acts 1, until step ``wrong``, at which it acts 7."""

    def __init__(self, wrong: int = -1) -> None:
        self.wrong, self.steps = wrong, 0

    def predict(self, observation: Any, **_: Any) -> tuple[Any, None]:
        self.steps += 1
        return np.full(len(observation), 7 if self.steps == self.wrong else 1), None


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    gym.register("Own-v0", Own, disable_env_checker=True, order_enforce=False)
    yield
    del gym.registry["Own-v0"]


def record(transitions: int = 20, policy: Any = None, **env_kwargs: Any) -> OfflineDataset:
    return collect({"own": policy or Count()}, "Own-v0", transitions, env_kwargs=env_kwargs, n_envs=1)


@pytest.mark.parametrize(
    ("env_id", "env_kwargs", "message"),
    [
        ("Blackjack-v1", {}, r"Blackjack-v1: observation_space=Tuple\(.*\): must be Box, Discrete, "),
        (
            "Own-v0",
            {"action_space": spaces.MultiDiscrete([2, 3])},
            r"Own-v0: action_space=MultiDiscrete\(\[2 3\]\): must be Box, or Discrete that starts at 0",
        ),
        (
            "Own-v0",
            {"action_space": spaces.Discrete(3, start=1)},
            r"Own-v0: action_space=Discrete\(3, start=1\): must be Box, or Discrete that starts at 0",
        ),
        (
            "Own-v0",
            {"observation_space": spaces.Dict({"action_mask": spaces.MultiBinary(3)})},
            r"Own-v0: observations/action_mask: rows of shape \(3,\) for 2 actions",
        ),
    ],
)
def test_spaces_that_data_do_not_have_are_told_before_the_first_step(
    env_id: str, env_kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Collection({"own": Count()}, env_id, 20, env_kwargs=env_kwargs)


@pytest.mark.parametrize(
    ("env_kwargs", "wrong", "kept", "message"),
    [
        ({"observations": {4: 99.0}}, -1, [0, 1, 2, 5, 6, 7, 8, 9], "observations: 2 of 20 .* 4: 99.0, must"),
        ({"observations": {10: np.nan}}, -1, range(9), "final_observations: 2 of 2 rows are outside"),
        ({"rewards": {3: np.inf}}, -1, [0, 1, 2, 4, 5, 6, 7, 8, 9], "rewards: 2 of 20 rows are not finite"),
        ({"costs": {3: np.nan}}, -1, [0, 1, 2, 4, 5, 6, 7, 8, 9], "costs: 2 of 20 rows are not finite"),
        ({}, 6, [0, 1, 2, 3, 4, 6, 7, 8, 9], "actions: 1 of 20 rows are outside .* 7, must be in Discrete"),
    ],
)
def test_steps_that_are_not_valid_are_left_out_and_the_others_kept(
    env_kwargs: dict[str, Any], wrong: int, kept: Any, message: str
) -> None:
    rows = list(kept)
    expected = rows + (rows if wrong < 0 else list(range(STEPS)))
    with pytest.warns(UserWarning, match=f"{message}.*; {20 - len(expected)} of 20 transitions are left out"):
        data = record(policy=Count(wrong), **env_kwargs)
    assert data.metadata["left_out"] == 20 - len(expected)
    assert data.observations[:, 0].tolist() == expected  # type: ignore[call-overload]
    assert data.next_observations[:, 0].tolist() == [row + 1 for row in expected]  # type: ignore[call-overload]
    ends = [row + 1 != after for row, after in zip(expected, [*expected[1:], 0], strict=True)]
    assert data.truncated.tolist() == ends


def test_if_no_step_is_valid_that_is_said() -> None:
    with pytest.raises(ValueError, match="rewards: 20 of 20 rows are not finite"):
        record(rewards=dict.fromkeys(range(STEPS), np.nan))


def test_steps_without_a_cost_cost_nothing_where_others_do() -> None:
    data = record(costs={2: 0.5, 7: 1.0})
    assert data.costs is not None
    assert data.costs.tolist() == [0, 0, 0.5, 0, 0, 0, 0, 1.0, 0, 0] * 2
    assert record().costs is None
