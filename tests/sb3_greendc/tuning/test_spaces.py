"""What a space samples builds a model, and is the same after it was stored or written into a file."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import optuna
import pytest
from stable_baselines3.common.vec_env import VecEnv

import greendc
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.runs.hyperparameters import load_hyperparameters
from sb3_greendc.runs.training import prepare
from sb3_greendc.tuning import SPACES, Objective, make_objective, search_space, to_settings
from sb3_greendc.tuning.spaces import Setting
from sb3_greendc.tuning.zoo_block import write_block

CONTINUOUS = ("crossq", "ddpg", "sac", "td3", "tqc")
DISCRETE = ("discrete_sac", "dqn", "qrdqn")
MASKED = ("maskable_ppo",)
ENVS = {"VCC-2021-v1": {"days": 1}, "DiscreteVCC-2021-v1": {"days": 1}, "ResourcePool-10-v0": {}}
FITTING = [
    (algorithm, env_id)
    for algorithm in SPACES
    for env_id in ENVS
    if (algorithm not in CONTINUOUS or env_id == "VCC-2021-v1")
    and (algorithm not in DISCRETE or env_id != "VCC-2021-v1")
    and (algorithm not in MASKED or env_id == "ResourcePool-10-v0")
]


def make_case(algorithm: str, env_id: str, folder: Path | None = None) -> Objective:
    if algorithm == "crr":
        assert folder is not None
        kwargs = {**greendc.training_kwargs(env_id), **ENVS[env_id]}
        collect(["sjf" if "Pool" in env_id else "always_on"], env_id, 100, env_kwargs=kwargs).save(
            folder / "data.npz"
        )
        return make_objective(env_id, algorithm, 100, ENVS[env_id], data=folder / "data.npz")
    fixed = {"buffer_size": 500} if algorithm in (*CONTINUOUS, *DISCRETE) else {}
    if "pid" in algorithm:
        fixed["cost_limit"] = 2
    return make_objective(env_id, algorithm, 100, ENVS[env_id], {"n_envs": 2, **fixed})


@functools.cache
def environment(env_id: str) -> VecEnv:
    return make_vec_env(env_id, 2, 0, **ENVS[env_id])


@pytest.mark.parametrize(("algorithm", "env_id"), FITTING)
def test_samples_build_a_model_and_are_read_back_from_a_file(
    algorithm: str, env_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = make_case(algorithm, env_id, tmp_path)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(2):
        hyperparameters = objective.hyperparameters(study.ask(objective.space).params)
        hyperparameters.build(environment(env_id), 0, "cpu")
    path = tmp_path / f"{algorithm}.yml"
    path.write_text("default:\n  policy: MlpPolicy\n")
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))
    write_block(path, env_id, hyperparameters.settings, ["where from"])
    read = load_hyperparameters(algorithm, env_id)
    assert read.settings == hyperparameters.settings


def test_parameters_become_the_constructors() -> None:
    base = {"n_envs": 4, "gamma": 0.5, "policy_kwargs": "dict(log_std_init=-1, activation_fn=nn.ReLU)"}
    sampled = {
        "learning_rate": 0.00031234567,
        "learning_rate_schedule": "linear",
        "one_minus_gamma": 0.0123456,
        "n_steps": 96,
        "n_minibatches": 8,
        "width": 128,
        "depth": 2,
        "activation": "Tanh",
    }
    settings = to_settings("ppo", sampled, base)
    assert settings == {
        "n_envs": 4,
        "gamma": 1 - 0.01235,
        "learning_rate": "lin_0.0003123",
        "n_steps": 96,
        "batch_size": 48,
        "policy_kwargs": {"log_std_init": -1, "activation_fn": "Tanh", "net_arch": [128, 128]},
    }
    assert (
        to_settings("ppo", sampled | {"learning_rate_schedule": "constant"}, base)["learning_rate"]
        == 3.123e-4
    )


def test_limit_is_searched_below_the_one_asked_for() -> None:
    assert to_settings("pid_ppo", {"limit_share": 0.5, "kp": 2.0}, {"cost_limit": 0.9})["cost_limit"] == 0.45
    space = search_space("recurrent_pid_ppo", Setting("vcc", True))
    assert {"kp", "ki", "kd", "limit_share", "lstm_hidden_size"} <= space.keys()
    assert "limit_share" in make_case("pid_ppo", "VCC-2021-v1").space  # the limit itself is given


def test_pool_searches_networks_that_read_its_observation() -> None:
    space = search_space("maskable_ppo", Setting("resource_pool", False))
    assert space["network"] == optuna.distributions.CategoricalDistribution(("job_set", "resource_rows"))
    assert "log_std_init" not in space
    sets = to_settings("maskable_ppo", {"network": "job_set", "width": 32}, {})
    assert sets["policy"] == "MaskableJobSetPolicy"
    rows = to_settings("ppo", {"network": "resource_rows", "width": 32}, {"policy": "JobSetPolicy"})
    assert rows["policy"] == "MaskedActorCriticPolicy"
    assert rows["policy_kwargs"]["features_extractor"] == "resource_rows"


def test_discounts_of_a_vcc_are_those_that_learn() -> None:
    discount = search_space("ppo", Setting("vcc", True))["one_minus_gamma"]
    assert isinstance(discount, optuna.distributions.FloatDistribution)
    assert discount.low <= 1 - 0.985 <= discount.high
    assert discount.high < 1 - 0.95


@pytest.mark.parametrize(
    ("fixed", "left_out"),
    [
        ({"gamma": 0.9}, {"one_minus_gamma"}),
        ({"learning_rate": 1e-3}, {"learning_rate", "learning_rate_schedule"}),
        ({"policy_kwargs": {"net_arch": [8]}}, {"width", "depth", "activation", "log_std_init"}),
    ],
)
def test_fixed_hyperparameters_are_not_searched(fixed: dict[str, object], left_out: set[str]) -> None:
    whole = make_objective("VCC-2021", "ppo", 100).space
    objective = make_objective("VCC-2021", "ppo", 100, fixed=fixed)
    assert whole.keys() - objective.space.keys() == left_out
    assert objective.hyperparameters({}).settings.items() >= fixed.items()


def test_the_strength_of_noise_that_is_turned_off_is_not_searched() -> None:
    whole = make_objective("VCC-2021", "td3", 100_000).space
    space = make_objective("VCC-2021", "td3", 100_000, fixed={"noise_type": None}).space
    assert whole.keys() - space.keys() == {"noise_std"}


@pytest.mark.parametrize(("steps", "warned"), [(50, True), (51, False)])
def test_a_budget_that_ends_before_the_first_update_is_told(steps: int, warned: bool) -> None:
    fixed = {"learning_starts": 50, "n_envs": 1, "train_freq": 1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_objective("VCC-2021", "sac", steps, {"days": 1}, fixed)
        prepare("sac", "VCC-2021", steps, env_kwargs={"days": 1}, hyperparameters=fixed)
        # With four environments the training goes on to a step in which there is an update.
        prepare("sac", "VCC-2021", 50, env_kwargs={"days": 1}, hyperparameters={**fixed, "n_envs": 4})
    found = [str(one.message) for one in caught if "learning_starts=50: no update in" in str(one.message)]
    assert len(found) == 2 * warned
