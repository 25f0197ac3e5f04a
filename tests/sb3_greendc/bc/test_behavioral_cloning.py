from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch as th
from cloning_cases import POOL, first_action_data
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env as make_sb3_vec_env
from stable_baselines3.common.policies import ActorCriticCnnPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from sb3_greendc.bc import Cloning, behavioral_clone
from sb3_greendc.bc.batches import Batches, split_episodes
from sb3_greendc.bc.cloning import CloningInterrupted, _BestEpoch
from sb3_greendc.bc.loss import MaskedLoss, most_likely_actions
from sb3_greendc.bc.models import make_model
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets import OfflineDataset, to_trajectories
from sb3_greendc.evaluation.agreement import agreement
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.extractors import JobSetPolicy, MaskedActorCriticPolicy
from sb3_greendc.runs.divergence import DivergedError
from sb3_greendc.runs.models import load_model


@pytest.fixture(scope="module", autouse=True)
def _imitation() -> None:
    pytest.importorskip("imitation")


@pytest.fixture(scope="module")
def data() -> OfflineDataset:
    return collect(["hvf"], "ResourcePool-10", 6000, env_kwargs=POOL)


@pytest.mark.parametrize("algorithm", ["ppo", "maskable_ppo"])
def test_learns_what_was_done_and_never_anything_invalid(algorithm: str) -> None:
    data = first_action_data()
    clone = behavioral_clone(data, "mlp", algorithm=algorithm, n_epochs=60, batch_size=16, learning_rate=3e-3)
    assert clone.algorithm == algorithm and isinstance(
        clone.model, MaskablePPO if algorithm != "ppo" else PPO
    )
    assert clone.history["validation_agreement"].max() == 1.0
    assert clone.history["train_loss"].iloc[-1] < 0.05 < clone.history["train_loss"].iloc[0]
    actions = most_likely_actions(
        clone.model.policy, {key: th.as_tensor(v) for key, v in data.observations.items()}
    )
    assert data.observations["action_mask"][np.arange(len(data)), actions].all()
    if algorithm == "ppo":  # masks from the observation, also when the policy stands alone
        predicted, _ = clone.model.predict(data.observations, deterministic=True)
        np.testing.assert_array_equal(predicted, actions)


def test_loss_is_the_masked_likelihood() -> None:
    data = first_action_data()
    model = make_model(data.observation_space, data.action_space, "mlp", "ppo", seed=0)
    batch = data.batch(np.arange(32), ["observations", "actions"])
    obs = {key: th.as_tensor(value) for key, value in batch["observations"].items()}
    acts = th.as_tensor(batch["actions"])
    metrics = MaskedLoss(ent_weight=0.1, l2_weight=0.01)(model.policy, obs, acts)
    _, log_prob, entropy = model.policy.evaluate_actions(obs, acts)
    l2 = sum(weights.square().sum() for weights in model.policy.parameters()) / 2
    torch_loss = -log_prob.mean() - 0.1 * entropy.mean() + 0.01 * l2
    assert metrics.loss.item() == pytest.approx(torch_loss.item(), rel=1e-5)
    assert metrics.entropy.item() == pytest.approx(entropy.mean().item(), rel=1e-5)
    assert MaskedLoss()(model.policy, obs, acts).loss.item() == pytest.approx(
        -log_prob.mean().item(), rel=1e-5
    )


def test_same_seed_same_clone() -> None:
    clones = [
        behavioral_clone(first_action_data(), "mlp", n_epochs=2, batch_size=16, seed=s) for s in (1, 1, 2)
    ]
    weights = [th.nn.utils.parameters_to_vector(clone.model.policy.parameters()) for clone in clones]
    assert th.equal(weights[0], weights[1]) and not th.equal(weights[0], weights[2])
    pd.testing.assert_frame_equal(clones[0].history, clones[1].history)


def test_runs_from_one_clone_differ_unless_they_are_seeded(tmp_path: Path) -> None:
    """The seed of the clone is that of its weights; environments and draws of PPO keep their own."""
    clone = behavioral_clone(first_action_data(), "mlp", algorithm="ppo", n_epochs=1, batch_size=16, seed=3)

    def run(env_seed: int, global_seed: int, **options: Any) -> th.Tensor:
        np.random.seed(global_seed)  # noqa: NPY002  # what SB3 draws from
        th.manual_seed(global_seed)
        env = make_sb3_vec_env(FirstActionEnv, 2, seed=env_seed)
        model = clone.attach(env, n_steps=16, batch_size=32, n_epochs=1, **options).learn(32)
        return th.nn.utils.parameters_to_vector(model.policy.parameters())

    first = run(1, 1)
    assert th.equal(first, run(1, 1))
    assert not th.equal(first, run(2, 1)) and not th.equal(first, run(1, 2))
    assert th.equal(run(1, 1, seed=5), run(2, 2, seed=5))
    clone.save(tmp_path)
    assert load_model(tmp_path).model.seed is None
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 3


class FirstActionEnv(gym.Env[Any, Any]):
    """Random observations with the spaces of :func:`first_action_data`; ten steps."""

    def __init__(self) -> None:
        data = first_action_data()
        self.observation_space, self.action_space = data.observation_space, data.action_space

    def _observe(self) -> Any:
        vector = self.np_random.random(4).astype(np.float32)
        return {"vector": vector, "action_mask": np.ones(4, np.int8)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._observe(), float(self.np_random.random()), self.t == 10, False, {}


class Modes(BaseFeaturesExtractor):
    """Notes in which mode it is run, and with what."""

    seen: ClassVar[list[tuple[bool, int]]] = []

    def __init__(self, space: spaces.Dict) -> None:
        super().__init__(space, 4)
        self.layer = th.nn.Linear(4, 4)

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        self.seen.append((self.training, len(observations["vector"])))
        return self.layer(observations["vector"])


def test_validation_does_not_train() -> None:
    """Dropout would blur the held-out loss, and batch normalization would learn from held-out data."""
    Modes.seen.clear()
    cloning = Cloning(
        first_action_data(),
        "mlp",
        algorithm="ppo",
        n_epochs=2,
        batch_size=27,
        policy_kwargs={"features_extractor_class": Modes},
    )
    assert len(cloning.rows) == 100 and len(cloning.held_out) == 20
    clone = cloning.run()
    epoch = [(True, 27)] * 3 + [(False, 20)] * 2
    assert Modes.seen == 2 * epoch
    assert not clone.model.policy.training


def test_split_holds_out_whole_episodes_of_every_source() -> None:
    data = collect(["sjf", "hvf"], "ResourcePool-10", 400, env_kwargs=POOL, n_envs=2)
    train, held_out = split_episodes(data, 0.25, np.random.default_rng(0))
    assert sorted([*train, *held_out]) == list(range(400))
    assert not set(data.episode_id[train]) & set(data.episode_id[held_out])
    assert set(data.source_id[held_out]) == {0, 1}
    assert len(split_episodes(data, 0.0, np.random.default_rng(0))[1]) == 0


def test_an_epoch_is_every_transition_once() -> None:
    data = first_action_data()
    batches = Batches(data, np.arange(64), 16, np.random.default_rng(0))
    seen = [np.concatenate([batch["obs"].get("vector")[:, 3] for batch in batches]) for _ in range(2)]
    for epoch in seen:
        np.testing.assert_array_equal(np.sort(epoch), np.sort(data.observations["vector"][:64, 3]))
    assert not np.array_equal(*seen)
    assert all(len(batch["obs"]) == len(batch["acts"]) == 16 for batch in batches)


def test_the_best_epoch_is_kept() -> None:
    """Of labels that mean nothing, more epochs learn more noise: the held-out loss says when to stop."""
    data = first_action_data(8)
    noise = np.random.default_rng(1)
    masks = data.observations["action_mask"]
    actions = np.array([noise.choice(np.flatnonzero(mask)) for mask in masks])
    object.__setattr__(data, "actions", actions)
    clone = behavioral_clone(data, "mlp", n_epochs=80, batch_size=8, learning_rate=5e-3)
    losses = clone.history["validation_loss"]
    assert clone.best_epoch == losses.idxmin() + 1 < 80
    _, held_out = split_episodes(data, 0.1, np.random.default_rng(0))
    batch = data.batch(held_out, ["observations", "actions"])
    obs = {key: th.as_tensor(value) for key, value in batch["observations"].items()}
    with th.no_grad():
        kept = MaskedLoss()(clone.model.policy, obs, th.as_tensor(batch["actions"])).loss.item()
    assert kept == pytest.approx(losses.min(), rel=1e-4)


def test_an_epoch_without_a_loss_is_not_the_best() -> None:
    box = spaces.Box(-1, 1, (1,), np.float32)
    keeper = _BestEpoch(make_model(box, box, "mlp").policy, first_action_data(), np.arange(3))
    for number, loss in enumerate((np.nan, 2.0, np.nan, 1.0, 3.0), start=1):
        keeper._validate = lambda loss=loss: (loss, np.nan)  # type: ignore[method-assign]
        keeper.finish_epoch(0.0)
        assert keeper.best_epoch == {1: 1, 2: 2, 3: 2, 4: 4, 5: 4}[number]


@pytest.mark.parametrize("validation_fraction", [0.0, 0.1])
def test_a_clone_that_diverged_is_an_error(validation_fraction: float) -> None:
    cloning = Cloning(
        first_action_data(),
        "mlp",
        batch_size=16,
        n_epochs=2,
        learning_rate=1e38,
        validation_fraction=validation_fraction,
    )
    with pytest.raises(DivergedError, match="a lower learning_rate may help"):
        cloning.run()


def test_data_of_a_scale_that_overflows_is_an_error() -> None:
    observations = np.full((40, 2), 1e30, np.float32)
    actions, ends = np.zeros((40, 1), np.float32), np.arange(40) % 10 == 9
    arrays = {"obs": observations, "next_obs": observations, "actions": actions, "rewards": np.zeros(40)}
    data = OfflineDataset.from_dict({**arrays, "terminated": ends, "truncated": np.zeros(40, bool)})
    with pytest.raises(DivergedError):
        behavioral_clone(data, "mlp", batch_size=8, n_epochs=2, learning_rate=1e5)


def test_interrupted_it_has_the_best_epoch_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = behavioral_clone(first_action_data(), "mlp", batch_size=16, n_epochs=4)
    finish = _BestEpoch.finish_epoch

    def interrupted(self: _BestEpoch, loss: float) -> None:
        if len(self.history) == epochs:
            raise KeyboardInterrupt
        finish(self, loss)

    monkeypatch.setattr(_BestEpoch, "finish_epoch", interrupted)
    epochs = 2
    with pytest.raises(CloningInterrupted) as stop:
        behavioral_clone(first_action_data(), "mlp", batch_size=16, n_epochs=4)
    pd.testing.assert_frame_equal(stop.value.clone.history, whole.history[:2])
    epochs = 0
    with pytest.raises(KeyboardInterrupt) as nothing:
        behavioral_clone(first_action_data(), "mlp", batch_size=16, n_epochs=4)
    assert not isinstance(nothing.value, CloningInterrupted)


def test_clones_a_heuristic_far_above_chance(data: OfflineDataset) -> None:
    clone = behavioral_clone(data, n_epochs=6, learning_rate=3e-3)
    table = agreement({"clone": clone.model}, ["hvf"], "ResourcePool-10", 5, env_kwargs=POOL)
    values = table.set_index("measure")["estimate"]
    assert values["agreement_free"] > 0.85 > values["chance_free"] + 0.3


def test_maskable_ppo_goes_on_training_and_evaluate_reads_it(data: OfflineDataset, tmp_path: Path) -> None:
    clone = behavioral_clone(data, n_epochs=2)
    path = clone.save(tmp_path / "run", note="kept")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["note"] == "kept"
    env = make_vec_env("ResourcePool-10", 2, 0, **POOL)
    load_model(path).model.save(tmp_path / "own")  # SB3's form
    loaded = MaskablePPO.load(tmp_path / "own", env, device="cpu", n_steps=16, batch_size=16)
    before = {key: value.clone() for key, value in loaded.policy.state_dict().items()}
    for key, value in clone.model.policy.state_dict().items():
        assert th.equal(value, before[key])
    loaded.learn(64)
    assert any(not th.equal(value, before[key]) for key, value in loaded.policy.state_dict().items())
    results = evaluate([str(tmp_path / "run"), "hvf"], "ResourcePool-10", 2, env_kwargs=POOL)
    assert results["return"].notna().all()
    attached = clone.attach(env, n_steps=32, batch_size=64, learning_rate=1e-5)
    assert attached.n_steps == 32 and attached.n_envs == 2
    attached.learn(64)
    assert attached.num_timesteps == 64


def test_ppo_goes_on_training_a_masked_policy(data: OfflineDataset) -> None:
    clone = behavioral_clone(data, JobSetPolicy, algorithm="ppo", n_epochs=1)
    assert isinstance(clone.model.policy, MaskedActorCriticPolicy)
    model = clone.attach(make_vec_env("ResourcePool-10", 2, 0, **POOL), n_steps=16, batch_size=16)
    model.learn(32)
    assert model.num_timesteps == 32


def test_box_actions_and_plain_observations() -> None:
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
    data = OfflineDataset.from_dict(
        {
            "obs": obs,
            "next_obs": obs,
            "actions": 0.5 * obs[:, :1],
            "rewards": np.zeros(400),
            "terminated": np.arange(400) % 10 == 9,
            "truncated": np.zeros(400, bool),
        },
        action_space=spaces.Box(-1, 1, (1,), np.float32),
    )
    clone = behavioral_clone(data, n_epochs=60, batch_size=40, learning_rate=3e-3)
    assert clone.algorithm == "ppo" and clone.history["validation_agreement"].isna().all()
    predicted, _ = clone.model.predict(obs, deterministic=True)
    assert np.abs(predicted - data.actions).mean() < 0.05


class BrightnessEnv(gym.Env[Any, Any]):
    """Images, bright where the second action is right; the channels last, as cameras give them."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (36, 40, 3), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros((36, 40, 3), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros((36, 40, 3), np.uint8), 0.0, True, False, {}


@pytest.mark.parametrize("policy", [ActorCriticCnnPolicy, "mlp"])
def test_images_with_channels_last(policy: Any) -> None:
    """Stable-Baselines3 transposes images of environments; the clone fits them, and predicts for both."""
    env = BrightnessEnv()
    bright = np.arange(60) % 2 == 1
    images = np.zeros((60, 36, 40, 3), np.uint8)
    images[bright, :18] = 255
    data = OfflineDataset.from_dict(
        {
            "obs": images,
            "next_obs": images,
            "actions": bright.astype(int),
            "rewards": np.zeros(60),
            "terminated": np.arange(60) % 10 == 9,
            "truncated": np.zeros(60, bool),
        },
        env.observation_space,
        env.action_space,
    )
    clone = behavioral_clone(data, policy, n_epochs=4, batch_size=10, policy_kwargs={"net_arch": []})
    assert clone.model.observation_space.shape == (3, 36, 40)
    model = clone.attach(env, n_steps=4, batch_size=4, n_epochs=1)
    for turned in (images, np.moveaxis(images, -1, 1)):
        np.testing.assert_array_equal(model.predict(turned, deterministic=True)[0], bright)
    model.learn(4)


def test_data_on_disk_are_cloned_too(
    data: OfflineDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREENDC_CACHE", str(tmp_path / "cache"))
    data.save(tmp_path / "x.npz")
    mapped = OfflineDataset.load(tmp_path / "x.npz", mmap=True)
    clones = [behavioral_clone(source, n_epochs=1) for source in (mapped, tmp_path / "x.npz")]
    pd.testing.assert_frame_equal(clones[0].history, clones[1].history)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_epochs": 0}, "n_epochs=0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0"),
        ({"batch_size": 1000}, "batch_size=1000: must be between 1 and 100"),
        ({"policy": "cnn"}, "policy='cnn': must be one of"),
        ({"policy": "job_set"}, "does not fit"),
        ({"algorithm": "dqn"}, "algorithm='dqn': must be one of"),
        ({"policy_kwargs": {"features_extractor": "combned"}}, "did you mean 'combined'"),
    ],
)
def test_bad_requests(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cloning(first_action_data(), **{"policy": "mlp", "batch_size": 16, **options})


def test_layers_without_units_do_not_fit() -> None:
    pool = make_vec_env("ResourcePool-10", 1, 0, **POOL)
    spaces_of = (pool.observation_space, pool.action_space)
    pool.close()
    with pytest.raises(ValueError, match="does not fit"):
        make_model(*spaces_of, "job_set", "maskable_ppo", {"net_arch": [0, -1]})


def test_options_that_the_algorithm_lacks_are_not_attached() -> None:
    clone = behavioral_clone(first_action_data(), "mlp", n_epochs=1, batch_size=16)
    with pytest.raises(TypeError, match="n_stepss: no option of MaskablePPO; did you mean 'n_steps'"):
        clone.attach(None, n_stepss=64)


def test_masks_need_discrete_actions_and_validation_needs_episodes() -> None:
    box = spaces.Box(-1, 1, (1,), np.float32)
    with pytest.raises(ValueError, match="needs Discrete actions"):
        make_model(box, box, "mlp", "maskable_ppo")
    with pytest.raises(ValueError, match="no source has two episodes"):
        Cloning(first_action_data(1), "mlp", batch_size=4)


def test_missing_imitation_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "imitation"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "imitation", None)
    with pytest.raises(ImportError, match=r"pip install 'sb3-greendc\[bc\]'"):
        Cloning(first_action_data(), "mlp", batch_size=4)
    with pytest.raises(ImportError, match=r"pip install 'sb3-greendc\[bc\]'"):
        to_trajectories(first_action_data())
