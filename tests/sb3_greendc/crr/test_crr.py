"""What CRR does, whatever it learns: spaces, data, learning."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch as th
from algorithm_cases import ACTIONS, OBSERVATIONS
from gymnasium import spaces
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.logger import configure
from toy_data import (
    StopAfter,
    observations_of,
    parameters_of,
    same,
    toy_dataset,
    toy_env,
    toy_model,
)

from sb3_greendc.crr import CRR, OfflineEvalCallback, updates
from sb3_greendc.crr.data import SourceSampler, returns_to_go
from sb3_greendc.crr.diagnostics import diagnose, opinions
from sb3_greendc.datasets import OfflineDataset, to_minari, to_replay_buffer, to_trajectories

# ---------------------------------------------------------------------- spaces


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ACTIONS)
def test_learns_and_predicts_on_every_space(observation, action):
    if observation == "masked" and action != "discrete":
        pytest.skip("continuous actions have no masks")
    model = toy_model(observation, action)
    before = parameters_of(model)
    model.learn(6)
    after = parameters_of(model)
    assert not any(th.equal(before[name], after[name]) for name in before if name.startswith("actor."))
    assert all(th.isfinite(value).all() for value in after.values())
    observations = observations_of(model.dataset)
    for deterministic in (True, False):
        actions, _ = model.predict(observations, deterministic=deterministic)
        assert all(model.action_space.contains(a) for a in actions)
        if observation == "masked":
            assert observations["action_mask"][np.arange(20), actions].all()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    "options",
    [
        {"weight_mode": "exp", "self_normalize": True},
        {"weight_mode": "bc"},
        {"value_mode": "mean", "n_value_samples": 2},
        {"value_mode": "max_sample"},
        {"target_actor": False, "n_critics": 1},
        {"cql_alpha": 0.5, "critic_loss": "huber", "combine": "mean"},
        {"actor_trains_encoder": True, "policy_kwargs": {"net_arch": {"shared": [8], "pi": [8], "qf": [8]}}},
        {"preset": "rare"},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_learn(action, options):
    model = toy_model("dict", action, **options).learn(6)
    assert all(th.isfinite(value).all() for value in parameters_of(model).values())


def test_exact_maximum_with_exponential_weights():
    toy_model("masked", weight_mode="exp", value_mode="max").learn(5)


@pytest.mark.parametrize("action", ACTIONS)
def test_who_trains_the_encoder(action):
    """The critics alone, unless the actor is told to; cloning has nobody else."""

    def gradient(**options):
        net_arch = {"shared": [8], "pi": [8], "qf": [8]}
        model = toy_model("box", action, policy_kwargs={"net_arch": net_arch}, **options)
        loss = model.losses(model._next_batch())._replace(weights=None)
        first = next(iter(model.policy.features_extractor.parameters()))
        (grad,) = th.autograd.grad(loss.actor, first, allow_unused=True)
        return grad

    assert gradient() is None
    assert gradient(actor_trains_encoder=True) is not None
    assert gradient(weight_mode="bc").abs().sum() > 0


def test_nothing_to_imitate_leaves_the_actor_alone(monkeypatch):
    model = toy_model().learn(5)
    before = parameters_of(model)
    monkeypatch.setattr(updates, "advantage_weights", lambda advantage, *_: th.zeros_like(advantage))
    model.train(1)
    after = parameters_of(model)
    assert all(th.equal(before[k], after[k]) for k in before if k.startswith("actor."))
    assert not all(th.equal(before[k], after[k]) for k in before if k.startswith("critic."))


def test_truncation_is_no_end():
    """One state, reward 1 for ever, recorded in pieces: worth 1 / (1 - γ), and 1 where it ends."""
    n = 64
    ones, flags = np.ones((n, 1), np.float32), np.zeros(n, dtype=bool)
    data = {"obs": ones, "next_obs": ones, "actions": np.arange(n) % 2, "rewards": np.ones(n)}
    pieces = {**data, "terminated": flags, "truncated": ~flags, "episode_id": np.arange(n)}
    box = spaces.Box(0, 1, (1,), np.float32)

    def value(arrays):
        model = CRR(
            "MlpPolicy", dataset=OfflineDataset.from_dict(arrays, box, spaces.Discrete(2)), gamma=0.9, seed=0,
            learning_rate=3e-3, tau=0.1, reward_scale=1.0, batch_size=32, device="cpu",
            policy_kwargs={"net_arch": [32]},
        ).learn(800)  # fmt: skip
        observation, _ = model.policy.obs_to_tensor(ones[:1])
        with th.no_grad():
            return float(model.policy.q_values(model.policy.encode(observation)).mean())

    assert value(pieces) == pytest.approx(10.0, abs=0.5)
    assert value({**pieces, "terminated": ~flags, "truncated": flags}) == pytest.approx(1.0, abs=0.1)


# ---------------------------------------------------------------------- data


def test_returns_to_go_of_interleaved_episodes():
    rewards = np.array([1.0, 10.0, 2.0, 20.0, 4.0])
    episodes = np.array([7, 3, 7, 3, 7])
    returns = returns_to_go(rewards, np.array([0, 0, 0, 0, 1]), episodes, 0.5)
    assert returns.values.tolist() == [1 + 1 + 1, 20, 4, 20, 4]
    assert returns.known.tolist() == [True, False, True, False, True]
    assert sorted(returns.starts) == [0, 1]
    long = returns_to_go(np.ones(9), np.zeros(9), np.zeros(9, int), 0.5)
    assert long.known.tolist() == [True] * 6 + [False] * 3  # .5⁴ is below a tenth, .5³ is not
    broken = np.arange(9) == 4
    parts = returns_to_go(np.ones(9), np.arange(9) == 8, np.zeros(9, int), 0.5, broken)
    assert parts.known.tolist() == [True] * 2 + [False] * 3 + [True] * 4


def test_every_source_is_drawn_equally_whatever_its_size():
    source_id = np.array([0] * 900 + [1] * 90 + [2] * 10)
    names = ["a", "b", "c"]
    generator = np.random.default_rng(0)

    def shares(weights=None):
        rows = SourceSampler(source_id, names, weights).draw(30_000, generator)
        assert len(np.unique(rows)) > 0.5 * np.isin(source_id, source_id[rows]).sum()
        return np.bincount(source_id[rows], minlength=3) / 30_000

    assert shares() == pytest.approx([1 / 3] * 3, abs=0.02)
    assert shares([1, 0, 3]) == pytest.approx([0.25, 0, 0.75], abs=0.02)
    assert shares({"b": 1.0}) == pytest.approx([0, 1, 0])


def test_a_lone_source_is_drawn_uniformly():
    rows = SourceSampler(np.zeros(10, int), ["a"]).draw(20_000, np.random.default_rng(0))
    assert np.bincount(rows) / 20_000 == pytest.approx([0.1] * 10, abs=0.01)


def test_takes_every_kind_of_data(tmp_path):
    data = toy_dataset()
    data.save(tmp_path / "data.npz")
    model = toy_model(dataset=None, observation_space=OBSERVATIONS["box"], action_space=ACTIONS["discrete"])
    arrays = data.batch(np.arange(len(data)))
    plain = {"obs": arrays["observations"], "next_obs": arrays["next_observations"]}
    plain |= {key: arrays[key] for key in ("actions", "rewards", "terminated", "truncated", "episode_id")}
    for kind in (data, tmp_path / "data.npz", str(tmp_path / "data.npz"), plain, to_replay_buffer(data)):
        model.set_dataset(kind)
        assert len(model.dataset) == len(data)
        model.learn(2)


def test_takes_trajectories_and_minari(tmp_path, monkeypatch):
    pytest.importorskip("imitation")
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = toy_dataset("masked")
    model = toy_model("masked", dataset=None, env=toy_env("masked", "discrete"))
    for kind in (to_trajectories(data), to_minari(data, "toy/masked-v0")):
        model.set_dataset(kind)
        assert len(model.dataset) == len(data)
        model.learn(2)


def test_reward_scale_makes_returns_vary_by_one_and_is_kept(tmp_path):
    model = toy_model()
    returns = returns_to_go(
        model.dataset.rewards, model.dataset.terminated, model.dataset.episode_id, model.gamma
    ).values
    assert model.scale == pytest.approx(1 / returns.std())
    batch = model._next_batch()
    model.save(tmp_path / "model")
    loaded = CRR.load(tmp_path / "model", device="cpu")
    scale = loaded.scale
    half = model.dataset.select(np.arange(60))
    loaded.set_dataset(half)
    assert loaded.scale == scale
    assert batch.rewards.abs().max() <= scale * np.abs(model.dataset.rewards).max() * (1 + 1e-6)


# ---------------------------------------------------------------------- learning


def test_the_seed_decides_everything():
    def trained(seed):
        return parameters_of(toy_model("masked", seed=seed, value_mode="mean").learn(20))

    assert same(trained(3), trained(3))
    assert not same(trained(3), trained(4))


def test_callbacks_progress_bar_and_logs(tmp_path):
    model = toy_model("masked")
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(30, CheckpointCallback(10, str(tmp_path), "model"), log_interval=10, progress_bar=True)
    assert (tmp_path / "model_20_steps.zip").exists()
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    assert len(lines) == 4
    for key in (
        "train/accept_frac", "train/actor_loss", "train/critic_loss", "train/q_max", "train/learning_rate",
        "data/agreement", "data/q_gap", "data/q_minus_return", "data/value_start", "data/return_start",
        "data/best_unseen", "sources/sjf/agreement", "sources/fcfs/accept_frac",
        "sources/fcfs/advantage_mean", "sources/fcfs/weight_mean", "time/total_timesteps",
    ):  # fmt: skip
        assert key in lines[0], key
    seen = []
    toy_model().learn(7, lambda *_: seen.append(1) or True)
    assert len(seen) == 7
    assert toy_model().learn(100, [StopAfter(5)]).num_timesteps == 5


def test_evaluates_without_a_training_environment(tmp_path):
    callback = OfflineEvalCallback(toy_env("box", "box"), eval_freq=10, n_eval_episodes=2,
                                   best_model_save_path=str(tmp_path), verbose=0, warn=False)  # fmt: skip
    toy_model("box", "box").learn(20, callback)
    assert np.isfinite(callback.last_mean_reward)
    assert CRR.load(tmp_path / "best_model", device="cpu").num_timesteps in (10, 20)


def test_learning_rate_follows_its_schedule():
    model = toy_model(learning_rate=lambda remaining: 1e-3 * remaining)
    model.learn(20)
    assert model.policy.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 / 20)


def test_values_that_run_away_are_reported():
    model = toy_model(gamma=0.5)
    for parameter in model.policy.critic.parameters():
        parameter.data += 50.0
    with pytest.warns(UserWarning, match="running away"):
        model.learn(1)


def test_divergence_is_an_error():
    model = toy_model()
    next(iter(model.policy.critic.parameters())).data.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"diverged: .* nan"):
        model.learn(1)


def test_diagnostics_are_exact():
    model = toy_model("box").learn(3)
    found = diagnose(model.policy, model.config, model._data, model.scale, model.advantage_std)
    rows = np.arange(len(model.dataset))
    actions, _ = model.predict(observations_of(model.dataset, len(rows)), deterministic=True)
    for i, name in enumerate(model.dataset.sources):
        own = np.asarray(model.dataset.source_id) == i
        expected = (actions == model.dataset.actions)[own].mean()
        assert found[f"sources/{name}/agreement"] == pytest.approx(expected)
    seen = opinions(model.policy, model.config, model._data.batch(rows))
    known = model._data.returns.known
    gap = seen.q_taken.numpy() / model.scale - model._data.returns.values
    assert found["data/q_minus_return"] == pytest.approx(gap[known].mean(), rel=1e-4)
    assert math.isclose(
        found["data/q_gap"], float((seen.q_best - seen.q_taken).mean()) / model.scale, rel_tol=1e-4
    )
    assert found["data/best_unseen"] == 0


@pytest.mark.parametrize("value_mode", ["max", "max_sample"])
def test_advantages_of_sources_are_those_of_training(value_mode):
    """Over the greatest value of all actions; of so many draws, all actions are among them."""
    model = toy_model("box", weight_mode="exp", value_mode=value_mode, n_value_samples=2000).learn(3)
    found = diagnose(model.policy, model.config, model._data, model.scale, model.advantage_std)
    seen = opinions(model.policy, model.config, model._data.batch(np.arange(len(model.dataset))))
    advantage = (seen.q_taken - seen.q_best).numpy() / model.scale
    for i, name in enumerate(model.dataset.sources):
        own = np.asarray(model.dataset.source_id) == i
        assert found[f"sources/{name}/advantage_mean"] == pytest.approx(advantage[own].mean(), rel=1e-4)
