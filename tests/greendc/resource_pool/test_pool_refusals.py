"""One mistake each: calls of a pool and of its planners that are refused, and what no mistake may change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pool_cases import FixedWorkload, job_arrays, random_config

from greendc.baselines.resource_pool import Foresight, RollingPlan, Rollout, ShortestJobFirst
from greendc.baselines.resource_pool.cpsat import replay
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.energy import SiteConfig
from greendc.energy.kernel import markov_levels
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolEnv
from greendc.resource_pool.energy_recording import EnergyRecorder
from greendc.resource_pool.recording import EpisodeRecorder
from greendc.resource_pool.rendering import describe
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.vcc import VCCEnv

VCC = VCCEnv(days=1)


def small(num_envs: int = 2, **options: Any) -> ResourcePoolSimulator:
    jobs = job_arrays((0, 2, (1, 1), 0.5), (0, 3, (2, 0), 0.9), (4, 2, (1, 1), 1.0))
    options = {"units": 4, "horizon": 6, "episode_steps": 8, "ready_pool_size": 3, **options}
    options.setdefault("workload", FixedWorkload(jobs))
    return ResourcePoolSimulator(ResourcePoolConfig(**options), num_envs)


def begun(num_envs: int = 2, **options: Any) -> tuple[ResourcePoolSimulator, Any]:
    simulator = small(num_envs, **options)
    for i in range(num_envs):
        simulator.reset_env(i, np.random.default_rng(i))
    return simulator, simulator.empty_observations()


NEEDS_AN_EPISODE: dict[str, Callable[[ResourcePoolSimulator], object]] = {
    "step": lambda pool: pool.step(np.array([0, 0]), pool.empty_observations()),
    "observe": lambda pool: pool.observe(pool.empty_observations(), 1),
    "observe all": lambda pool: pool.observe(pool.empty_observations()),
    "view": lambda pool: pool.view(1),
    "metrics": lambda pool: pool.episode_metrics(1),
    "power": lambda pool: pool.power_series(1),
    "place": lambda pool: pool.place(1, 0),
    "instance": lambda pool: recorded_instance(pool, 1),
    "replay": lambda pool: replay(pool, 1, np.array([0]), np.array([0])),
    "masks": lambda pool: pool.action_masks(),
    "describe": lambda pool: describe(pool, 1),
    "rollout": lambda pool: Rollout(pool, 1).act(pool.empty_observations()),
    "advantages": lambda pool: Rollout(pool, 1).advantages(pool.empty_observations()),
    "foresight": lambda pool: Foresight(pool, futures=1).act(pool.empty_observations()),
    "plan": lambda pool: RollingPlan(pool, 1).act(pool.empty_observations()),
    "queue": lambda pool: ShortestJobFirst(pool, scope="queue").act(pool.empty_observations()),
}


@pytest.mark.parametrize("name", NEEDS_AN_EPISODE)
def test_where_no_episode_has_begun_there_is_nothing_to_do(name: str) -> None:
    simulator = small()
    simulator.reset_env(0, np.random.default_rng(0))  # of two environments, one
    with pytest.raises(RuntimeError, match=r"environment 1: .*call reset\(\)"):
        NEEDS_AN_EPISODE[name](simulator)


@pytest.mark.parametrize("index", [-1, 2, 2**40])
def test_an_environment_that_there_is_not(index: int) -> None:
    simulator, out = begun()
    calls: list[Callable[[], object]] = [
        lambda: simulator.reset_env(index, np.random.default_rng(0)),
        lambda: simulator.observe(out, index),
        lambda: simulator.view(index),
        lambda: simulator.episode_metrics(index),
        lambda: simulator.power_series(index),
        lambda: simulator.place(index, 0),
        lambda: recorded_instance(simulator, index),
        lambda: replay(simulator, index, np.array([0]), np.array([0])),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"index={index}: must be an environment, from 0 to 1"):
            call()


def test_after_the_end_nothing_is_placed() -> None:
    simulator, out = begun(1)
    while not simulator.truncated[0]:
        simulator.step(np.array([4]), out)
    before = copy.deepcopy(simulator.state)
    for call in (lambda: simulator.place(0, 0), lambda: simulator.step(np.array([4]), out)):
        with pytest.raises(RuntimeError, match="environment 0: the episode is over"):
            call()
    for array, kept in zip(simulator.state, before, strict=True):
        np.testing.assert_array_equal(array, kept)
    simulator.observe(out)  # the last observation can still be had
    assert len(simulator.view().queue) == 3


def test_where_observations_go() -> None:
    simulator, out = begun()
    frozen = out["jobs"].copy()
    frozen.flags.writeable = False
    for wrong in (
        frozen,
        out["jobs"][:1],
        out["jobs"].astype(np.float64),
        np.asfortranarray(out["jobs"]),
        None,
    ):
        for call in (
            lambda into: simulator.step(np.array([0, 0]), into),
            lambda into: simulator.observe(into),
        ):
            with pytest.raises(ValueError, match=r"out\['jobs'\] is .*: must be \(2, 3, 15\) float32"):
                call({**out, "jobs": wrong})
    with pytest.raises(ValueError, match="out='ndarray': must be a dict"):
        simulator.step(np.array([0, 0]), out["jobs"])
    assert simulator.view(0).now == simulator.view(1).now == 0
    assert len(simulator.view(0).queue) == 2  # nothing was placed
    flat, vectors = begun(observation="flat")
    with pytest.raises(ValueError, match="must be an array"):
        flat.step(np.array([0, 0]), vectors[:, 1:])
    assert len(flat.view(0).queue) == 2


def test_a_record_is_of_one_episode() -> None:
    jobs = job_arrays((0, 2, (1, 1), 0.5), (0, 3, (2, 0), 0.9))
    env = EpisodeRecorder(ResourcePoolEnv(units=4, horizon=6, episode_steps=8, workload=FixedWorkload(jobs)))
    env.reset(seed=0)
    env.step(0)
    env.step(11)
    with pytest.raises(ValueError, match="only 'jobs' is known"):
        env.reset(options={"job": 1})
    assert env.record().steps == 1  # a reset that was refused changes nothing
    pool = env.unwrapped.simulator
    pool.step(np.array([11]), pool.empty_observations())
    for call in (env.record, lambda: env.step(11)):
        with pytest.raises(RuntimeError, match="past its recorder"):
            call()
    env.reset(seed=0)
    pool.reset_env(0, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="past its recorder"):
        env.record()


def test_a_record_of_energy_is_of_one_episode() -> None:
    env = EnergyRecorder(ResourcePoolEnv(power="trace", episode_steps=6, offered_load=0.0))
    env.reset(seed=0)
    no_op = env.unwrapped.config.no_op
    env.step(no_op)
    assert env.record().steps == 1
    env.unwrapped.step(no_op)
    for call in (env.record, lambda: env.step(no_op)):
        with pytest.raises(RuntimeError, match="past its recorder"):
            call()
    env.reset(seed=0)
    env.unwrapped.reset(seed=0)
    for call in (env.record, lambda: env.step(no_op)):
        with pytest.raises(RuntimeError, match="past its recorder"):
            call()


def test_a_view_outlives_a_reset_with_more_jobs() -> None:
    simulator, _ = begun(1)
    view = simulator.view()
    many = job_arrays(*[(0, 2, (1, 1), 0.5)] * 100)
    simulator.reset_env(0, np.random.default_rng(0), {"jobs": many})
    assert view.queue.tolist() == list(range(100))
    assert len(view.job_table()["arrival"]) == 100


@pytest.mark.parametrize("action", [5.7, np.array([3]), "3", None])
def test_an_action_is_a_whole_number(action: Any) -> None:
    env = ResourcePoolEnv()
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"action=.*: must be a whole number in 0 \.\. 11$"):
        env.step(action)
    assert env.simulator.view().now == 0
    env.step(np.array(11))
    assert env.simulator.view().now == 1


def test_one_step_is_of_one_environment() -> None:
    simulator, _ = begun(2)
    with pytest.raises(ValueError, match="num_envs=2: must be 1"):
        simulator.step_one(0)
    assert len(simulator.view(0).queue) == 2


def test_jobs_written_to_after_they_were_checked() -> None:
    simulator, _ = begun()
    jobs = job_arrays((0, 2, (1, 1), 0.5))
    jobs.duration[0] = -3
    with pytest.raises(ValueError, match=r"JobArrays.duration\[0\]=-3"):
        simulator.reset_env(0, np.random.default_rng(0), {"jobs": jobs})
    with pytest.raises(ValueError, match="resource types=3: must be 2, as in the pool"):
        simulator.reset_env(
            0, np.random.default_rng(0), {"jobs": job_arrays((0, 1, (1, 1, 1), 0.5), types=3)}
        )
    with pytest.raises(TypeError, match="must be JobArrays, not dict"):
        simulator.reset_env(0, np.random.default_rng(0), {"jobs": {}})


def test_planners_imagine_no_job_that_can_never_fit() -> None:
    workload = FixedWorkload(job_arrays((0, 2, (1, 1), 0.5)))
    simulator = ResourcePoolSimulator(ResourcePoolConfig(units=4, horizon=6, workload=workload))
    workload.jobs = job_arrays((0, 400, (1, 1), 0.5))
    for planner in (Rollout, Foresight, RollingPlan):
        with pytest.raises(ValueError, match=r"duration\[0\]=400: the job can never fit"):
            planner(simulator)


def test_planners_are_given_a_pool_and_its_observations() -> None:
    for planner in (ShortestJobFirst, Rollout, Foresight, RollingPlan):
        with pytest.raises(TypeError, match="must be a ResourcePoolSimulator, not VCCSimulator"):
            planner(VCC.unwrapped.simulator)
    simulator, out = begun()
    simulator.observe(out)
    with pytest.raises(ValueError, match=r"jobs \(2, 2, 15\): must be 2 of"):
        ShortestJobFirst(simulator).act({**out, "jobs": out["jobs"][:, :2].copy()})
    with pytest.raises(ValueError, match="must be uint8 or float32"):
        ShortestJobFirst(simulator, dispatch="easy").act({**out, "resources": out["resources"].astype(int)})
    with pytest.raises(ValueError, match=r"prior=\(1,\): must be a function that returns \(2, 5\)"):
        Rollout(simulator, 1, prior=lambda observations: np.zeros(1)).act(out)


def test_a_heuristic_reads_pictures_of_either_dtype() -> None:
    """Its compiled code does not look at types, so it has one code for each."""
    wide = job_arrays((0, 3, (3, 1), 0.9), (0, 6, (4, 1), 0.8), (0, 2, (1, 1), 0.7))
    simulator, out = begun(1, units=4, workload=FixedWorkload(wide), horizon=8)
    simulator.step(np.array([0]), out)
    policy = ShortestJobFirst(simulator, dispatch="easy")
    in_floats = {**out, "resources": (out["resources"] / np.float32(255)).astype(np.float32)}
    assert [policy.act(seen)[0] for seen in (out, in_floats, out)] == [1, 1, 1]


def test_a_schedule_to_replay_names_jobs_that_there_are() -> None:
    simulator, _ = begun(1)
    for job in (-1, 3):
        with pytest.raises(ValueError, match=r"ids in 0 \.\. 2"):
            replay(simulator, 0, np.array([job]), np.array([0]))
    with pytest.raises(ValueError, match="start="):
        replay(simulator, 0, np.array([0, 1]), np.array([0]))


def test_deadlines_are_whole_numbers_of_steps() -> None:
    with pytest.raises(ValueError, match=r"JobArrays.qos\[0\]=1e-19: must be larger: .*2\*\*53"):
        job_arrays((0, 1, (1, 1), 1e-19))
    with pytest.raises(
        ValueError, match=r"JobArrays.arrival\[0\]=9223372036854775807: must be at most 2\*\*53"
    ):
        job_arrays((2**63 - 1, 1, (1, 1), 0.5))
    assert len(job_arrays((2**53, 1, (1, 1), 2.0**-53))) == 1


def test_levels_stay_levels_where_kilowatts_overflow() -> None:
    site = SiteConfig(total_kw=1e308, critical_kw=1e307, pv_kw=1e308, wind_kw=1e308)
    config = random_config(np.random.default_rng(0), power="trace", site=site, forecast_error=1000.0)
    simulator = ResourcePoolSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0))
    out = simulator.empty_observations()
    while not simulator.truncated[0]:
        levels = simulator.view().levels
        assert (levels >= 0).all() and (levels <= config.units).all()
        simulator.step(np.array([config.ready_pool_size + 1]), out)
    with pytest.raises(ValueError, match=r"forecast_error=1000\.5: must be in \[0, 1000\]"):
        ResourcePoolConfig(forecast_error=1000.5)


def test_each_level_has_its_random_number() -> None:
    with pytest.raises(ValueError, match="uniforms: must be one for each"):
        markov_levels(np.zeros(3), np.zeros(2), 1.0, 0.0, 0.5, 0.5)
