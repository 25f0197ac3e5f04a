"""What every algorithm of the project must do, whatever it learns (after Stable-Baselines3's own tests)."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from algorithm_cases import ACTIONS, CASES, OBSERVATIONS, MaskedToyEnv, ToyEnv, toy_vec_env
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize

pytestmark = pytest.mark.filterwarnings("ignore:.*shorter than one episode.*")


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def parameters_of(model):
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(th.equal(a[name], b[name]) for name in a)


def some_observations(model, n=10):
    rows = [model.observation_space.sample() for _ in range(n)]
    if not isinstance(rows[0], dict):
        return np.stack(rows)
    observations = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    if "action_mask" in observations:
        observations["action_mask"][:, 0] = 1
    return observations


def first(observations):
    if isinstance(observations, dict):
        return {key: values[0] for key, values in observations.items()}
    return observations[0]


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ACTIONS)
def test_learns_and_predicts_on_every_space(case, observation, action):
    if action not in case.actions or observation in case.not_observations:
        pytest.skip("not for these spaces")
    if observation == "masked" and action != "discrete":
        pytest.skip("continuous actions have no masks")
    model = case.make(observation, action)
    before = parameters_of(model)
    model.learn(case.steps)
    assert not same(before, parameters_of(model))
    assert all(th.isfinite(value).all() for value in parameters_of(model).values())
    observations = some_observations(model)
    for deterministic in (True, False):
        actions, _ = model.predict(observations, deterministic=deterministic)
        assert len(actions) == 10
        assert all(model.action_space.contains(a) for a in actions)
        single, _ = model.predict(first(observations), deterministic=deterministic)
        assert model.action_space.contains(single if single.shape else int(single))


def test_refuses_actions_that_it_does_not_know(case):
    unknown = [name for name in ACTIONS if name not in case.actions]
    if not unknown:
        pytest.skip("takes them all")
    with pytest.raises((AssertionError, ValueError), match=r"action"):
        case.make("box", unknown[0])


@pytest.mark.parametrize("n_envs", [1, 3])
def test_never_takes_an_invalid_action(case, n_envs):
    model = case.make("masked", n_envs=n_envs)
    model.learn(2 * case.steps)  # the environment asserts that its mask is obeyed
    observations = some_observations(model, n=200)
    for deterministic in (True, False):
        actions, _ = model.predict(observations, deterministic=deterministic)
        assert observations["action_mask"][np.arange(200), actions].all()


@pytest.mark.parametrize("observation", ["box", "masked"])
def test_several_environments(case, observation):
    model = case.make(observation, n_envs=3).learn(case.steps)
    assert model.num_timesteps >= case.steps
    assert model.num_timesteps % 3 == 0


@pytest.mark.parametrize("observation", ["box", "masked"])
def test_the_seed_decides_everything(case, observation):
    def trained(seed):
        return parameters_of(case.make(observation, n_envs=2, seed=seed).learn(case.steps))

    a, b, c = trained(3), trained(3), trained(4)
    assert same(a, b)
    assert not same(a, c)


@pytest.mark.parametrize("observation", ["box", "masked", "dict"])
def test_save_and_load(case, observation, tmp_path):
    model = case.make(observation).learn(case.steps)
    observations = some_observations(model)
    actions, _ = model.predict(observations, deterministic=True)
    model.save(tmp_path / "model")

    alone = type(model).load(tmp_path / "model", device="cpu")
    assert same(parameters_of(model), parameters_of(alone))
    np.testing.assert_array_equal(alone.predict(observations, deterministic=True)[0], actions)

    env = toy_vec_env(observation, case.actions[0])
    loaded = type(model).load(tmp_path / "model.zip", env=env, device="cpu")
    assert loaded.num_timesteps == model.num_timesteps
    loaded.learn(case.steps, reset_num_timesteps=False)
    assert loaded.num_timesteps >= 2 * case.steps
    assert not same(parameters_of(model), parameters_of(loaded))


def test_optimizers_survive_loading(case, tmp_path):
    model = case.make().learn(case.steps)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model", device="cpu")
    before, after = model.get_parameters(), loaded.get_parameters()
    assert before.keys() == after.keys()
    states = [name for name in before if "state" in before[name] and "param_groups" in before[name]]
    assert states
    for name in states:
        assert before[name]["state"]
        for key, state in before[name]["state"].items():
            assert all(th.equal(state[part], after[name]["state"][key][part]) for part in state), name


def test_parameters_can_be_set(case, tmp_path):
    model, other = case.make().learn(case.steps), case.make(seed=5)
    assert not same(parameters_of(model), parameters_of(other))
    other.set_parameters(model.get_parameters())
    assert same(parameters_of(model), parameters_of(other))
    model.save(tmp_path / "model")
    third = case.make(seed=6)
    third.set_parameters(tmp_path / "model.zip", device="cpu")
    assert same(parameters_of(model), parameters_of(third))


@pytest.mark.parametrize("include", [None, ()], ids=["safe form", "SB3's form"])
def test_parameters_of_other_networks_are_refused_before_any_is_taken(case, include, tmp_path):
    model, wider = case.make(), case.make(policy_kwargs={"net_arch": [24]})
    wider.save(tmp_path / "model", include=include)
    before = parameters_of(model)
    for given, exact in ((tmp_path / "model.zip", True), (wider.get_parameters(), False)):
        with pytest.raises(ValueError, match=r"policy\..* of shape .* the parameters are of another model"):
            model.set_parameters(given, exact, "cpu")
        assert same(before, parameters_of(model))
    for given, said in (
        ({"policy": wider.get_parameters()["policy"]}, "is in this model alone|of another model"),
        ({**case.make(seed=7).get_parameters(), "nope": {}}, "nope is none of this model's"),
    ):
        with pytest.raises(ValueError, match=said):
            model.set_parameters(given)
        assert same(before, parameters_of(model))
    name, *_ = (given := model.get_parameters())["policy"]
    given["policy"].pop(name)
    with pytest.raises(ValueError, match=r"policy\..* is in this model alone"):
        model.set_parameters(given)
    model.set_parameters(given, exact_match=False)


def test_other_spaces_are_refused(case, tmp_path):
    case.make("box").save(tmp_path / "model")
    with pytest.raises(ValueError, match="do not match"):
        case.cls.load(tmp_path / "model", env=toy_vec_env("image", case.actions[0]))


def test_policy_can_be_saved_alone(case, tmp_path):
    model = case.make()
    model.policy.save(tmp_path / "policy.pth")
    policy = type(model.policy).load(tmp_path / "policy.pth", device="cpu")
    assert same(parameters_of(model), policy.state_dict())


def test_learning_rate_follows_its_schedule(case):
    model = case.make(learning_rate=lambda remaining: 1e-3 * remaining)
    model.learn(2 * case.steps)
    assert 0 <= model.logger.name_to_value["train/learning_rate"] < 1e-3


class StopAfter(BaseCallback):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def _on_step(self):
        return self.n_calls < self.n


def test_callbacks_stop_learning(case):
    model = case.make(n_envs=2).learn(10 * case.steps, callback=StopAfter(5))
    assert model.num_timesteps == 10


def test_progress_bar_and_log_files(case, tmp_path):
    model = case.make()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(2 * case.steps, log_interval=1, progress_bar=True)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert "rollout/ep_rew_mean" in header
    assert "train/n_updates" in header


def test_second_learn_goes_on(case):
    model = case.make()
    model.learn(case.steps)
    n_updates = model._n_updates
    model.learn(case.steps, reset_num_timesteps=False)
    assert model.num_timesteps >= 2 * case.steps
    assert model._n_updates > n_updates


def test_normalized_observations_and_rewards(case):
    env = VecNormalize(toy_vec_env("box", case.actions[0], 2))
    model = case.cls(case.policies["flat"], env, seed=0, device="cpu", **case.kwargs).learn(case.steps)
    assert all(th.isfinite(value).all() for value in parameters_of(model).values())


def test_evaluation_by_sb3(case):
    model = case.make("masked")
    mean, _ = evaluate_policy(model, MaskedToyEnv(), n_eval_episodes=3, warn=False)
    assert np.isfinite(mean)


def test_environment_ids_and_unwrapped_environments(case):
    model = case.cls(case.policies["flat"], "CartPole-v1", device="cpu", **case.kwargs)
    assert isinstance(model.observation_space, spaces.Box)
    assert case.cls(case.policies["flat"], ToyEnv(), device="cpu", **case.kwargs).n_envs == 1
