"""Replay buffers with n-step returns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

from sb3_greendc.core.discounting import TIME_ADVANCED
from sb3_greendc.discrete_sac import DictNStepReplayBuffer, FlatNStepReplayBuffer
from sb3_greendc.discrete_sac.buffers import POLICY_ENTROPY, natural_scale

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)
DICT = spaces.Dict(x=BOX, image=spaces.Box(0, 255, (2, 3), np.uint8))
ACTIONS = spaces.Discrete(3)
GAMMA = 0.9
SIZE, N_ENVS = 20, 2


def observation(t, is_dict):
    """Environment e at step t shows 100 e + t."""
    numbers = (100.0 * np.arange(N_ENVS) + t)[:, None].astype(np.float32)
    return {"x": numbers, "image": np.full((N_ENVS, 2, 3), t, dtype=np.uint8)} if is_dict else numbers


def filled(cls, n_added, n_steps, seed=0, **kwargs):
    """Return a buffer after ``n_added`` steps, and rewards, dones and timeouts ``(n_added, N_ENVS)``."""
    generator = np.random.default_rng(seed)
    is_dict = issubclass(cls, DictReplayBuffer)
    if n_steps is not None:
        kwargs |= {"n_steps": n_steps, "gamma": GAMMA}
    buffer = cls(SIZE * N_ENVS, DICT if is_dict else BOX, ACTIONS, device="cpu", n_envs=N_ENVS, **kwargs)
    rewards = generator.normal(size=(n_added, N_ENVS)).astype(np.float32)
    dones = generator.random((n_added, N_ENVS)) < 0.2
    timeouts = dones & (generator.random((n_added, N_ENVS)) < 0.5)
    for t in range(n_added):
        infos = [
            {"TimeLimit.truncated": bool(cut), POLICY_ENTROPY: float(10 * e + t), TIME_ADVANCED: taken(t, e)}
            for e, cut in enumerate(timeouts[t])
        ]
        obs, next_obs = observation(t, is_dict), observation(t + 1, is_dict)
        buffer.add(obs, next_obs, np.full(N_ENVS, t % 3), rewards[t], dones[t], infos)
    return buffer, rewards, dones, timeouts


def taken(t, e):
    """Time steps that decision t took in environment e."""
    return (t + e) % 3


def by_hand(t, e, n_steps, rewards, dones, timeouts, steps=lambda *_: 1):
    """Return reward, discount, terminal flag and last step of the n-step transition that starts at t."""
    total, discount = 0.0, 1.0
    for k in range(n_steps):
        if t + k == len(rewards):
            return total, discount, 0.0, t + k - 1
        total += discount * rewards[t + k, e]
        discount *= GAMMA ** steps(t + k, e)
        if dones[t + k, e]:
            return total, discount, float(not timeouts[t + k, e]), t + k
    return total, discount, 0.0, t + n_steps - 1


@pytest.mark.parametrize("cls", [DictNStepReplayBuffer, FlatNStepReplayBuffer])
@pytest.mark.parametrize("n_steps", [1, 3, 5])
@pytest.mark.parametrize("n_added", [9, SIZE, SIZE + 7])
@pytest.mark.parametrize("by_time", [False, True])
def test_every_transition_is_what_it_should_be(cls, n_steps, n_added, by_time):
    is_dict = cls is DictNStepReplayBuffer
    more = {"store_entropy": True, "by_time": by_time}
    buffer, rewards, dones, timeouts = filled(cls, n_added, n_steps, **more)
    steps = taken if by_time else lambda *_: 1
    starts = []
    for _ in range(3):
        samples = buffer.sample(200)
        obs = samples.observations["x"] if is_dict else samples.observations
        next_obs = samples.next_observations["x"] if is_dict else samples.next_observations
        for row in range(200):
            e, t = divmod(int(obs[row]), 100)
            reward, discount, done, last = by_hand(t, e, n_steps, rewards, dones, timeouts, steps)
            starts.append((t, e))
            assert samples.rewards[row].item() == pytest.approx(reward, abs=1e-5)
            assert samples.discounts[row].item() == pytest.approx(discount, abs=1e-6)
            assert samples.dones[row].item() == done
            assert next_obs[row].item() == 100 * e + last + 1
            assert samples.actions[row].item() == t % 3
            assert samples.old_entropies[row].item() == 10 * e + t
            if is_dict:
                assert samples.observations["image"].dtype.is_floating_point is False
                assert (samples.next_observations["image"][row] == last + 1).all()
    oldest = max(0, n_added - SIZE)
    assert set(starts) == {(t, e) for t in range(oldest, n_added) for e in range(N_ENVS)}


@pytest.mark.parametrize(
    ("ours", "theirs", "n_steps"),
    [
        (FlatNStepReplayBuffer, NStepReplayBuffer, 3),
        (FlatNStepReplayBuffer, ReplayBuffer, 1),
        (DictNStepReplayBuffer, DictReplayBuffer, 1),
    ],
)
def test_same_as_sb3_where_sb3_has_one(ours, theirs, n_steps):
    a, *_ = filled(ours, SIZE + 3, n_steps)
    b, *_ = filled(theirs, SIZE + 3, n_steps if theirs is NStepReplayBuffer else None)
    np.random.seed(0)  # noqa: NPY002 (SB3's buffers draw there)
    x = a.sample(300)
    np.random.seed(0)  # noqa: NPY002 (SB3's buffers draw there)
    y = b.sample(300)
    for name in ("actions", "rewards", "dones"):
        np.testing.assert_allclose(getattr(x, name), getattr(y, name), rtol=1e-5, err_msg=name)
    left, right = x.next_observations, y.next_observations
    for key in DICT.spaces if isinstance(left, dict) else [None]:
        np.testing.assert_array_equal(
            left if key is None else left[key], right if key is None else right[key]
        )
    if n_steps > 1:
        np.testing.assert_allclose(x.discounts, y.discounts, rtol=1e-6)


def test_returns_do_not_run_on_after_a_reset():
    buffer, _, dones, _ = filled(FlatNStepReplayBuffer, 6, 3)
    buffer.end_trajectories()
    for t in range(6, 9):
        obs, next_obs = observation(t, False), observation(t + 1, False)
        rewards, infos = np.full(N_ENVS, 1e3), [{} for _ in range(N_ENVS)]
        buffer.add(obs, next_obs, np.zeros(N_ENVS), rewards, np.zeros(N_ENVS), infos)
    samples = buffer.sample(400)
    early = samples.observations[:, 0] % 100 < 6
    assert (samples.rewards[early] < 100).all()
    # Cut, not terminated: what follows is still worth something.
    newest = samples.observations[:, 0] % 100 == 5
    assert (samples.dones[newest].flatten() <= dones[5].max() * 1.0).all()


def test_bad_arguments():
    with pytest.raises(ValueError, match="n_steps=0"):
        FlatNStepReplayBuffer(10, BOX, ACTIONS, n_steps=0)
    with pytest.raises(ValueError, match="optimize_memory_usage"):
        FlatNStepReplayBuffer(10, BOX, ACTIONS, optimize_memory_usage=True, handle_timeout_termination=False)


@pytest.mark.parametrize("cls", [DictNStepReplayBuffer, FlatNStepReplayBuffer, ReplayBuffer])
@pytest.mark.parametrize("n_added", [12, 31])
def test_natural_scale_is_one_over_the_spread_of_the_returns(cls, n_added):
    buffer, *arrays = filled(cls, n_added, None)
    rewards, dones, timeouts = (values[-SIZE:] for values in arrays)
    buffer.rewards *= 0.1
    buffer.rewards += 1.0
    rewards = 0.1 * rewards + 1
    returns = [
        by_hand(t, e, SIZE, rewards, dones, timeouts)[0] for t in range(len(rewards)) for e in range(N_ENVS)
    ]
    assert np.std(returns) > 1.05 * np.abs(rewards).max()
    assert natural_scale(buffer, GAMMA) == pytest.approx(1 / np.std(returns))


def test_the_spread_of_returns_is_by_time_where_discounts_are():
    found = []
    for by_time in (False, True):
        buffer, rewards, dones, timeouts = filled(FlatNStepReplayBuffer, 12, 1, by_time=by_time)
        buffer.rewards *= 0.1
        buffer.rewards += 1.0
        steps, arrays = taken if by_time else lambda *_: 1, (0.1 * rewards + 1, dones, timeouts)
        returns = [by_hand(t, e, SIZE, *arrays, steps)[0] for t in range(12) for e in range(N_ENVS)]
        found.append(natural_scale(buffer, GAMMA))
        assert found[-1] == pytest.approx(1 / np.std(returns))
    assert found[0] != found[1]


def test_a_buffer_of_an_earlier_version_discounts_by_decisions():
    buffer, *_ = filled(FlatNStepReplayBuffer, 12, 3)
    old = pickle.loads(pickle.dumps(buffer))
    assert "time_steps" not in vars(old)
    assert (old.sample(50).discounts <= GAMMA).all()
    assert natural_scale(old, GAMMA) == natural_scale(buffer, GAMMA)
    with pytest.raises(ValueError, match="DiscountByTime: the replay buffer holds transitions without"):
        old.discount_by_time()


def test_rare_rewards_count_by_their_own_size():
    buffer, *_ = filled(FlatNStepReplayBuffer, 12, None)
    buffer.rewards[:] = 0
    assert natural_scale(buffer, GAMMA) is None
    buffer.rewards[0, 0] = -4.0
    assert natural_scale(buffer, GAMMA) == 0.25
