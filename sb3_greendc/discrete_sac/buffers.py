"""Replay buffers with n-step returns, for plain and for ``Dict`` observations.

SB3's ``NStepReplayBuffer`` knows plain observations only. These two share one rule: a return collects at
most ``n_steps`` rewards and stops at the end of an episode, terminated or truncated, and at the newest
transition of its environment. With ``n_steps=1`` they are SB3's buffers, sampled with fewer copies. With
``by_time`` they discount by the time that passes, as
:class:`~sb3_greendc.core.discounting.DiscountByTime` asks them to.

An n-step target leaves out the entropy of the steps between, which is small for n ≤ 3.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc.core.discounting import NoTimeError, steps_of

POLICY_ENTROPY = "policy_entropy"
"""Key of ``info`` under which the entropy of the collecting policy reaches a buffer that stores it."""


class NStepSamples(NamedTuple):
    """A batch of transitions; the first five fields are those of SB3's samples.

    :param observations: ``(B, ...)``, or a dict of such
    :param actions: ``(B, 1)``
    :param next_observations: after the last of the collected steps
    :param dones: ``(B, 1)``, 1 where the episode terminated within them (truncation does not count)
    :param rewards: ``(B, 1)``, discounted sums
    :param discounts: ``(B, 1)``, γ to the number of collected steps, or of the time steps that they took
    :param old_entropies: ``(B, 1)``, entropy of the policy that collected the first step, if stored
    """

    observations: Any
    actions: th.Tensor
    next_observations: Any
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor
    old_entropies: th.Tensor | None


class _NStepSampling(ReplayBuffer):
    """What the two buffers share."""

    time_steps: NDArray[np.float32] | None = None
    """``(T, n_envs)``, how many time steps each decision took; ``None`` where that is not known."""
    by_time: bool = False
    """Whether samples are discounted by these; ``False``: by decisions."""

    def __init__(
        self,
        *args: Any,
        n_steps: int = 1,
        gamma: float = 0.99,
        store_entropy: bool = False,
        by_time: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if n_steps < 1:
            raise ValueError(f"n_steps={n_steps!r}: must be at least 1")
        if self.optimize_memory_usage:
            raise ValueError("optimize_memory_usage=True: not supported with n-step returns and truncation")
        self.n_steps = n_steps
        self.gamma = gamma
        self.entropies: NDArray[np.float32] | None = None
        if store_entropy:
            self.store_entropies()
        if by_time:
            self.discount_by_time()

    def discount_by_time(self) -> None:
        """Discount by the time that passes: each step by γ to the time steps that its decision took.

        :raises ValueError: if there are transitions of which that is not known
        """
        if self.time_steps is None:
            if self.size() > 0:
                raise ValueError(
                    "DiscountByTime: the replay buffer holds transitions without the time that they took: "
                    "begin with an empty one"
                )
            self.time_steps = np.zeros((self.buffer_size, self.n_envs), dtype=np.float32)
        self.by_time = True

    def discount_by_decisions(self) -> None:
        """Discount each step by γ, however long it took; times that are known go on being kept."""
        self.by_time = False

    def store_entropies(self) -> None:
        """Keep entropies from now on.

        :raises ValueError: if there are transitions of which they are not known
        """
        if self.entropies is None:
            if self.size() > 0:
                raise ValueError("the replay buffer holds transitions without entropies: begin with another")
            self.entropies = np.zeros((self.buffer_size, self.n_envs), dtype=np.float32)

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]
    ) -> None:
        """Store one transition of every environment; see SB3."""
        if self.entropies is not None:
            self.entropies[self.pos] = [info[POLICY_ENTROPY] for info in infos]
        if self.time_steps is not None:
            self._keep_time(infos)
        super().add(obs, next_obs, action, reward, done, infos)

    def _keep_time(self, infos: list[dict[str, Any]]) -> None:
        """Keep how long the last decisions took, or nothing where that is not said and not needed."""
        assert self.time_steps is not None
        try:
            self.time_steps[self.pos] = steps_of(infos)
        except NoTimeError:
            if self.by_time:
                raise
            self.time_steps = None

    def end_trajectories(self) -> None:
        """Mark the newest transitions as truncated, since what is added next does not follow from them."""
        if self.size() > 0:
            newest = (self.pos - 1) % self.buffer_size
            unfinished = self.dones[newest] == 0
            self.dones[newest][unfinished] = 1.0
            self.timeouts[newest][unfinished] = 1.0

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> NStepSamples:  # type: ignore[override]
        """Return the transitions that start at ``batch_inds``, each of a random environment."""
        # SB3's buffers draw from NumPy's global generator, which `set_random_seed` seeds.
        env_inds = np.random.randint(0, self.n_envs, size=len(batch_inds))  # noqa: NPY002
        last, rewards, discounts = self._collect(batch_inds, env_inds, env)
        # Steps and environments as one axis: one index is faster than two.
        first_rows, last_rows = batch_inds * self.n_envs + env_inds, last * self.n_envs + env_inds
        dones = _rows(self.dones, last_rows) * (1.0 - _rows(self.timeouts, last_rows))
        return NStepSamples(
            observations=self._observations(self.observations, first_rows, env),
            actions=self._tensor(_rows(self.actions, first_rows)),
            next_observations=self._observations(self.next_observations, last_rows, env),
            dones=self._tensor(dones[:, None]),
            rewards=self._tensor(rewards[:, None]),
            discounts=self._tensor(discounts[:, None]),
            old_entropies=None
            if self.entropies is None
            else self._tensor(_rows(self.entropies, first_rows)[:, None]),
        )

    def _collect(
        self, first: NDArray[Any], env_inds: NDArray[Any], env: VecNormalize | None
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
        """Return index of the last step collected, discounted sum of rewards, and discount of the rest."""
        newest = (self.pos - 1) % self.buffer_size
        last = first
        returns = self._reward(last, env_inds, env)
        discounts = self._discounts(first, env_inds)
        for _ in range(self.n_steps - 1):
            goes_on = (self.dones[last, env_inds] == 0) & (last != newest)
            last = np.where(goes_on, (last + 1) % self.buffer_size, last)
            returns = returns + np.where(
                goes_on, discounts * self._reward(last, env_inds, env), np.float32(0)
            )
            discounts = np.where(goes_on, discounts * self._discounts(last, env_inds), discounts)
        return last, returns, discounts

    def _discounts(self, inds: NDArray[Any], env_inds: NDArray[Any]) -> NDArray[np.float32]:
        """Return the discount of what follows on some stored steps."""
        if not self.by_time:
            return np.full(len(inds), self.gamma, dtype=np.float32)
        assert self.time_steps is not None
        found: NDArray[np.float32] = np.float32(self.gamma) ** self.time_steps[inds, env_inds]
        return found

    def _reward(
        self, inds: NDArray[Any], env_inds: NDArray[Any], env: VecNormalize | None
    ) -> NDArray[np.float32]:
        return cast("NDArray[np.float32]", self._normalize_reward(self.rewards[inds, env_inds], env))

    def _observations(self, stored: Any, rows: NDArray[Any], env: VecNormalize | None) -> Any:
        return self._tensor(cast("NDArray[Any]", self._normalize_obs(_rows(stored, rows), env)))

    def _tensor(self, array: NDArray[Any]) -> th.Tensor:
        """Return an array that nothing else holds as a tensor, without a copy on the CPU."""
        return th.from_numpy(array).to(self.device)


class FlatNStepReplayBuffer(_NStepSampling):
    """Replay buffer with n-step returns for observations that are one array.

    :param args: as for SB3's ``ReplayBuffer``
    :param n_steps: greatest number of rewards in a return
    :param gamma: discount
    :param store_entropy: keep the entropy that ``infos[i]["policy_entropy"]`` holds, for the entropy penalty
    :param by_time: discount by the time that passes, which ``infos[i]["time_advanced"]`` holds
    :param kwargs: as for SB3's ``ReplayBuffer``
    """


class DictNStepReplayBuffer(_NStepSampling, DictReplayBuffer):  # type: ignore[misc]
    """Replay buffer with n-step returns for ``Dict`` observations; every key keeps its own dtype.

    A ``uint8`` image of 48 × 20 takes 1.9 kB a transition (it is stored twice, as observation and as next
    observation), one of 48 × 600 takes 58 kB, 5.8 GB for 100,000 transitions.

    :param args: as for SB3's ``DictReplayBuffer``
    :param n_steps: greatest number of rewards in a return
    :param gamma: discount
    :param store_entropy: keep the entropy that ``infos[i]["policy_entropy"]`` holds, for the entropy penalty
    :param by_time: discount by the time that passes, which ``infos[i]["time_advanced"]`` holds
    :param kwargs: as for SB3's ``DictReplayBuffer``
    """

    def _observations(self, stored: Any, rows: NDArray[Any], env: VecNormalize | None) -> Any:
        arrays = self._normalize_obs({key: _rows(array, rows) for key, array in stored.items()}, env)
        return {key: self._tensor(array) for key, array in cast("dict[str, NDArray[Any]]", arrays).items()}


def _rows(array: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows of an array whose first two axes, step and environment, count as one."""
    return array.reshape(-1, *array.shape[2:]).take(rows, axis=0)


def natural_scale(buffer: ReplayBuffer, gamma: float, env: VecNormalize | None = None) -> float | None:
    """Return one over the spread of the returns in a buffer; ``None`` while all its rewards are 0.

    The spread is the standard deviation of the discounted returns from each transition to the end of its
    episode (or of what is stored of it), or the greatest absolute reward if that is more: where rewards are
    rare, most returns are 0.

    :param buffer: any of SB3's with the newest transition at ``pos - 1``
    :param gamma: discount
    :param env: normalizes the rewards, as in samples
    """
    size = buffer.size()
    if not buffer.rewards[:size].any():
        return None
    oldest = buffer.pos if buffer.full else 0
    order = (oldest + np.arange(size)) % buffer.buffer_size
    rewards = buffer._normalize_reward(buffer.rewards[order], env).astype(np.float64)
    steps = buffer.time_steps if isinstance(buffer, _NStepSampling) and buffer.by_time else None
    goes_on = gamma ** (1.0 if steps is None else steps[order]) * (1.0 - buffer.dones[order])
    returns = rewards.copy()
    for i in range(size - 2, -1, -1):
        returns[i] += goes_on[i] * returns[i + 1]
    return 1.0 / max(float(returns.std()), float(np.abs(rewards).max()))
