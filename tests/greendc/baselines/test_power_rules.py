"""Rules and plans that command power, the bound that none of them passes, and the views of one half."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "resource_pool"))

from pool_cases import random_commanded, sensible_or_any

import greendc
from greendc.baselines import make_policy, names
from greendc.baselines.resource_pool import power_plan
from greendc.baselines.resource_pool.energy_programme import carbon_bound, least_cost, least_kg
from greendc.baselines.resource_pool.outlooks import OUTLOOKS, foresee
from greendc.baselines.resource_pool.power_rules import POWER_RULES, GridQos, PowerRule, look
from greendc.baselines.resource_pool.power_views import PowerView, SchedulerView
from greendc.resource_pool import ResourcePoolEnv, ResourcePoolSimulator

ENV_ID = "ResourcePoolCarbon-10-v0"
SHORT: dict[str, Any] = {"episode_steps": 144, "carbon": "PGE-2019"}
POLICIES = (*POWER_RULES, "power_plan", "power_halves", "deadline_never")
HALVES = ("power_plan", "carbon_threshold")


def play(env: gym.Env[Any, Any], policy: Any, seed: int = 1) -> dict[str, float]:
    observation, _ = env.reset(seed=seed)
    while True:
        action = policy.predict(observation)[0]
        observation, _, _, truncated, info = env.step(int(action))
        if truncated:
            return info["episode_metrics"]


@pytest.fixture(scope="module")
def played() -> dict[str, dict[str, float]]:
    found = {}
    for name in POLICIES:
        env = gym.make(ENV_ID, **SHORT)
        found[name] = play(env, make_policy(name, env))
    return found


def test_rules_stand_where_heuristics_do() -> None:
    assert set(POWER_RULES) <= set(names("resource_pool", commands=True))
    assert not set(POWER_RULES) & set(names("resource_pool", hindsight=True))
    plain = ResourcePoolEnv()
    for name in (*POWER_RULES, "power_plan", "power_halves"):
        with pytest.raises(ValueError, match="power_levels"):
            make_policy(name, plain)
    for name in ("plan", "rollout", "foresight"):
        with pytest.raises(ValueError, match=r"power_levels=.*None for this planner"):
            make_policy(name, gym.make(ENV_ID, **SHORT))


def test_no_rule_takes_an_invalid_action(played: dict[str, dict[str, float]]) -> None:
    assert {name: metrics["invalid_actions"] for name, metrics in played.items()} == dict.fromkeys(played, 0)


def test_rules_do_what_they_are_called_for(played: dict[str, dict[str, float]]) -> None:
    assert played["grid_on"] == played["deadline_never"]  # every unit on, the highest QoS value first
    assert played["grid_on"]["switched_units"] == 0
    least = min(metrics["brown_kwh"] for name, metrics in played.items() if name != "random_actions")
    assert played["grid_off"]["brown_kwh"] == least
    assert played["as_needed"]["brown_kwh"] < played["grid_on"]["brown_kwh"]
    dirt = {name: metrics["carbon_kg"] / metrics["brown_kwh"] for name, metrics in played.items()}
    assert dirt["arbitrage"] < 0.95 * dirt["as_needed"]  # what it buys is cleaner
    worst = min(metrics["total_job_value"] for metrics in played.values())
    assert played["random_actions"]["total_job_value"] == worst


def test_the_plan_says_which_actions_are_its_own() -> None:
    env = greendc.make_vec(ENV_ID, 2, **{**SHORT, "episode_steps": 48})
    observations, _ = env.reset(seed=3)
    plan, several = make_policy("power_plan", env), 0
    for _ in range(60):
        masks = env.simulator.action_masks()
        labels = plan.advantages(observations)  # type: ignore[attr-defined]
        assert labels.dtype == np.float32
        assert (np.isfinite(labels) == masks).all()
        assert set(labels[masks].tolist()) <= {0.0, -1.0}
        actions = plan.predict(observations)[0]
        assert (np.nanargmax(labels, axis=1) == actions).all()
        own = (labels == 0.0).sum(axis=1)
        assert (
            (own == 1) | (actions < env.simulator.config.ready_pool_size)
        ).all()  # only starts have no order
        several += int((own > 1).sum())
        observations, *_ = env.step(actions)
    assert several > 0


@pytest.mark.parametrize("name", ["power_plan", "power_halves"])
def test_batches_of_episodes_have_noise_of_their_own(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    env = greendc.make_vec(ENV_ID, 2, **SHORT)
    observations, _ = env.reset(seed=3)
    seen: list[tuple[Any, ...]] = []

    def noted(*arguments: Any) -> Any:
        seen.append(foresee(*arguments))
        return seen[-1]

    monkeypatch.setattr(power_plan, "foresee", noted)
    for first in (None, 0, 128):
        policy = make_policy(name, env, forecast="noisy")
        if first is not None:
            policy.begin_at(first)
        policy.predict(observations)
    (whole, _), (_, _), (again, _), (_, _), (other, _), (_, _) = seen
    assert (whole == again).all()
    assert whole[0] == other[0]  # what is now is known
    assert (whole[1:12] != other[1:12]).any()


def test_plans_and_bounds_know_how_many_units_can_be_on() -> None:
    """Of ten units at most four may be ordered: no more jobs are planned than these can run."""
    env = gym.make(ENV_ID, **SHORT, power_levels=(0, 2, 4), offered_load=2.0)
    env.reset(seed=300)
    simulator = env.unwrapped.simulator
    plan = make_policy("power_plan", env, spares=0)
    seen = look(simulator, 0)
    shares = plan._plan(0, seen).shares  # type: ignore[attr-defined]
    used = sum(np.outer(share, seen.needs[job]) for job, share in shares.items())
    assert used.max() == pytest.approx(4.0)
    metrics = play(env, make_policy("grid_on", env), 300)
    free = carbon_bound(simulator, 0.0).value
    assert metrics["total_job_value"] <= free + 1e-6
    assert free <= 144 * 2 * 4  # a unit and step are worth 1 at most


def test_halves_of_one_rule_are_that_rule_and_others_mix_both() -> None:
    found = {}
    for jobs in ("power_plan", "carbon_threshold"):
        env = gym.make(ENV_ID, **SHORT)
        found[jobs] = play(env, make_policy(jobs, env, kg_price=0.1))
        for power in ("power_plan", "carbon_threshold"):
            env = gym.make(ENV_ID, **SHORT)
            halves = make_policy("power_halves", env, jobs=jobs, power=power, kg_price=0.1)
            found[jobs, power] = play(env, halves)
            assert found[jobs, power]["invalid_actions"] == 0
        assert found[jobs, jobs] == found[jobs]
    apart = [found["power_plan", "carbon_threshold"], found["carbon_threshold", "power_plan"]]
    assert len({metrics["total_job_value"] for metrics in (*apart, *map(found.get, HALVES))}) == 4  # type: ignore[index]
    for wrong in ({"jobs": "grid_on"}, {"power": "grid_on"}):
        with pytest.raises(ValueError, match=rf"{next(iter(wrong))}='grid_on'"):
            make_policy("power_halves", gym.make(ENV_ID, **SHORT), **wrong)


def test_a_price_of_carbon_lowers_it() -> None:
    for name in ("carbon_threshold", "power_plan"):
        found = []
        for price in (0.02, 0.4):
            env = gym.make(ENV_ID, **SHORT)
            metrics = play(env, make_policy(name, env, kg_price=price))
            found.append(metrics["carbon_kg"] + metrics["settled_carbon_kg"])
        assert found[1] < 0.8 * found[0], name


def test_batches_act_as_single_environments_do() -> None:
    batch = greendc.make_vec(ENV_ID, 2, **SHORT)
    observations, _ = batch.reset(seed=4)
    policy = make_policy("grid_qos", batch)
    actions: list[list[int]] = [[], []]
    for _ in range(60):
        chosen = policy.predict(observations)[0]
        observations, *_ = batch.step(chosen)
        for i in range(2):
            actions[i].append(int(chosen[i]))
    for i in range(2):
        env = gym.make(ENV_ID, **SHORT)
        single, alone = make_policy("grid_qos", env), []
        observation, _ = env.reset(seed=4 + i)
        for _ in range(60):
            alone.append(int(single.predict(observation)[0]))
            observation, *_ = env.step(alone[-1])
        assert alone == actions[i]


@pytest.mark.parametrize("price", [0.0, 0.1, 0.5])
def test_no_policy_passes_the_bound(played: dict[str, dict[str, float]], price: float) -> None:
    env = gym.make(ENV_ID, **SHORT)
    env.reset(seed=1)
    bound = carbon_bound(env.unwrapped.simulator, price).value
    for name, metrics in played.items():
        carbon = metrics["carbon_kg"] + metrics["settled_carbon_kg"]
        assert metrics["total_job_value"] - price * carbon <= bound * (1 + 1e-9), name
    if price == 0.0:
        assert bound == pytest.approx(played["grid_on"]["total_job_value"], rel=0.6)


@pytest.mark.parametrize("seed", range(24))
def test_random_actions_in_random_pools_do_not_pass_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    simulator = ResourcePoolSimulator(random_commanded(rng))
    simulator.reset_env(0, np.random.default_rng(seed))
    price = float(rng.choice([0.0, 0.05, 0.5]))
    bound = carbon_bound(simulator, price).value
    least = least_kg(simulator)
    out = simulator.empty_observations()
    while not simulator.truncated[0]:
        simulator.step(np.array([sensible_or_any(rng, simulator.action_masks()[0])]), out)
    metrics = simulator.episode_metrics(0)
    carbon = metrics["carbon_kg"] + metrics["settled_carbon_kg"]
    assert metrics["total_job_value"] - price * carbon <= bound + 1e-6 * (1 + abs(bound))
    assert carbon >= least - 1e-6 * (1 + least)


def test_the_least_cost_is_that_of_the_critical_load_in_the_mean_of_episodes() -> None:
    simulator = ResourcePoolSimulator(gym.make(ENV_ID, **SHORT).unwrapped.simulator.config, 3)
    for seed in range(3):
        simulator.reset_env(seed, np.random.default_rng(seed))
    kg = [least_kg(simulator, k) for k in range(3)]
    assert simulator.config.cost == "carbon"
    assert least_cost(simulator.config, 3) == pytest.approx(np.mean(kg) / 100.0)
    brown = dataclasses.replace(simulator.config, cost="brown")
    assert least_cost(brown, 3) != least_cost(simulator.config, 3)
    assert least_cost(dataclasses.replace(simulator.config, cost="delayed"), 3) is None
    assert least_cost(gym.make("ResourcePoolGreen-10-v0").unwrapped.simulator.config, 1) is None
    env = gym.make(ENV_ID, **SHORT)
    spent = [play(env, make_policy("grid_off", env), seed)["brown_kwh"] for seed in range(3)]
    least = least_cost(brown, 3)
    assert least is not None
    assert 0.4 * np.mean(spent) < 100.0 * least < np.mean(spent)


def test_forecasts_know_what_they_say() -> None:
    rng, day = np.random.default_rng(0), 24
    series = np.random.default_rng(1).uniform(0, 1, (200, 5))
    truth = series[:, 0] + series[:, 1]
    for kind in OUTLOOKS:
        green, kg = foresee(kind, series, 60, 36, day, rng)
        assert (green[0], kg[0]) == (truth[60], series[60, 2]), kind
        assert green.shape == kg.shape == (36,)
        changed = series.copy()
        changed[61:] = 0.0
        same = np.array_equal(foresee(kind, changed, 60, 36, day, np.random.default_rng(0))[1][1:], kg[1:])
        assert same == (kind in ("persistence", "climatology")), kind
    np.testing.assert_array_equal(foresee("oracle", series, 60, 36, day, rng)[0], truth[60:96])
    persistent = foresee("persistence", series, 60, 36, day, rng)[0]
    np.testing.assert_array_equal(persistent[[5, 24, 29]], truth[[41, 60, 41]])
    assert foresee("climatology", series, 60, 36, day, rng)[0][5] == pytest.approx(truth[[17, 41]].mean())


def test_the_scheduler_alone_is_a_pool_without_commands() -> None:
    env = SchedulerView(gym.make(ENV_ID, **SHORT))
    ready = env.unwrapped.config.ready_pool_size
    assert env.action_space.n == ready + 2
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    truncated = False
    while not truncated:
        slots = np.flatnonzero(env.action_masks()[:ready])
        action = int(slots[np.argmax(observation["jobs"][slots, 2])]) if len(slots) else ready + 1
        observation, _, _, truncated, info = env.step(action)
        np.testing.assert_array_equal(observation["action_mask"], env.action_masks())
    whole = gym.make(ENV_ID, **SHORT)
    assert info["episode_metrics"] == play(whole, make_policy("as_needed", whole))


def test_the_power_manager_alone_commands_once_a_step() -> None:
    env = PowerView(gym.make(ENV_ID, **SHORT))
    config = env.unwrapped.config
    assert env.action_space.n == config.commands == 18
    observation, _ = env.reset(seed=1)
    truncated, steps, total = False, 0, 0.0
    while not truncated:
        assert env.observation_space.contains(observation)
        observation, reward, _, truncated, info = env.step(config.commands - 3)
        steps, total = steps + 1, total + float(reward)
        assert info["time_advanced"] == 1
    assert steps == config.episode_steps
    metrics = info["episode_metrics"]
    assert total == pytest.approx(metrics["accrued_reward"])
    whole = gym.make(ENV_ID, **SHORT)
    assert metrics == play(whole, make_policy("grid_on", whole))


def test_views_refuse_what_they_cannot_halve() -> None:
    with pytest.raises(ValueError, match="power_levels"):
        SchedulerView(ResourcePoolEnv())
    view = SchedulerView(gym.make(ENV_ID, **SHORT))
    view.reset(seed=0)
    for action in (-1, int(view.action_space.n)):  # the next ones command power
        with pytest.raises(ValueError, match=rf"action={action}: must be in Discrete\(12\)"):
            view.step(action)
    env, other = gym.make(ENV_ID, **SHORT), gym.make(ENV_ID, **SHORT)
    with pytest.raises(ValueError, match=r"rule=.*this environment's simulator"):
        PowerView(env, PowerRule(other.unwrapped.simulator))
    with pytest.raises(ValueError, match="min_qos=-1"):
        GridQos(env.unwrapped.simulator, min_qos=-1.0)
