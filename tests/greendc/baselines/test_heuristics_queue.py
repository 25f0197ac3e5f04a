"""Heuristics over the whole queue: as over observations where the ready pool holds all that wait."""

from __future__ import annotations

import numpy as np
import pytest
from heuristic_cases import pool_with, random_config

from greendc.baselines import make_policy
from greendc.baselines.resource_pool import HEURISTICS
from greendc.resource_pool import ResourcePoolEnv, ResourcePoolSimulator, ResourcePoolVectorEnv
from greendc.resource_pool.orders import DISPATCHES
from greendc.resource_pool.view import FREE

ORDERED = tuple(name for name in HEURISTICS if name != "random")
EVERYBODY = 150


class Holder:
    """What has a simulator is an environment to ``make_policy``."""

    def __init__(self, simulator: ResourcePoolSimulator) -> None:
        self.simulator = simulator


def play(case: int, name: str, dispatch: str, scope: str) -> dict[str, list[object]]:
    """All jobs of an episode with their places."""
    rng = np.random.default_rng(case)
    simulator = ResourcePoolSimulator(random_config(rng, ready_pool_size=EVERYBODY))
    simulator.reset_env(0, rng)
    observations = simulator.empty_observations()
    simulator.observe(observations)
    policy = make_policy(name, Holder(simulator), dispatch=dispatch, scope=scope)
    while not simulator.truncated[0]:
        assert len(simulator.view().queue) <= EVERYBODY
        simulator.step(policy.predict(observations)[0], observations)
    return {column: values.tolist() for column, values in simulator.view().job_table().items()}


@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.parametrize("name", ORDERED)
def test_both_scopes_do_the_same_when_all_jobs_are_ready(name: str, dispatch: str) -> None:
    for case in range(8):
        ready, queue = (play(case, name, dispatch, scope) for scope in ("ready", "queue"))
        assert ready == queue, f"case {case}"


@pytest.mark.parametrize("name", [*ORDERED, "random"])
def test_jobs_outside_the_ready_pool_are_placed(name: str) -> None:
    simulator, observations = pool_with(*[(0, 3, (1, 1), 0.5)] * 6, ready_pool_size=1)
    policy = make_policy(name, Holder(simulator), scope="queue")
    assert policy.predict(observations)[0].tolist() == [2]
    assert len(simulator.view().placed) == 4
    assert len(simulator.view().queue) == 2


def test_the_best_of_the_whole_queue_goes_first() -> None:
    simulator, observations = pool_with(
        (0, 5, (4, 4), 0.5), (0, 2, (4, 4), 0.5), (0, 3, (4, 4), 0.5), ready_pool_size=1
    )
    make_policy("sjf", Holder(simulator), scope="queue").predict(observations)
    assert simulator.view().placed.tolist() == [1]


@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_masks_are_right_after_the_policy_has_placed_jobs(dispatch: str) -> None:
    """What the simulator says can be placed, can: the policy's searches leave no wrong places behind."""
    rng = np.random.default_rng(0)
    placements = 0
    for seed in range(30):
        env = ResourcePoolEnv(offered_load=1.5, episode_steps=60)
        observation, _ = env.reset(seed=seed)
        policy = make_policy("qos", env, dispatch=dispatch, scope="queue")
        truncated = False
        while not truncated:
            action = int(policy.predict(observation)[0])
            choices = np.flatnonzero(env.action_masks()[:10])
            if len(choices) and rng.random() < 0.3:
                action = int(rng.choice(choices))
            before, waiting = env.simulator.view().cell_jobs(), env.simulator.view().queue
            observation, _, _, truncated, _ = env.step(action)
            if action < 10:
                taken = env.simulator.view().cell_jobs() == waiting[action]
                table = env.simulator.view().job_table()
                job = waiting[action]
                assert (before[taken] == FREE).all(), f"seed {seed}: cells that were not free"
                assert taken.sum() == table["duration"][job] * table["units"][job].sum()
                placements += 1
    assert placements > 100 or dispatch == "reserve"


def test_a_batch_is_its_single_environments() -> None:
    batch = ResourcePoolVectorEnv(3, offered_load=1.2, episode_steps=60)
    policy = make_policy("sjf", batch, scope="queue")
    observations, _ = batch.reset(seed=7)
    for _ in range(60):
        observations, _, _, truncated, infos = batch.step(policy.predict(observations)[0])
    assert truncated.all()
    for i in range(3):
        env = ResourcePoolEnv(offered_load=1.2, episode_steps=60)
        single = make_policy("sjf", env, scope="queue")
        observation, _ = env.reset(seed=7 + i)
        for _ in range(60):
            observation, _, _, _, info = env.step(single.predict(observation)[0])
        assert info["episode_metrics"] == infos["final_info"][i]["episode_metrics"]


def test_it_wants_all_environments_and_every_step() -> None:
    env = ResourcePoolVectorEnv(3)
    observations, _ = env.reset(seed=0)
    policy = make_policy("sjf", env, scope="queue")
    with pytest.raises(ValueError, match="one row for each"):
        policy.predict({key: value[:2] for key, value in observations.items()})
    with pytest.raises(ValueError, match="skip_forced"):
        make_policy("sjf", ResourcePoolEnv(skip_forced=True), scope="queue")
