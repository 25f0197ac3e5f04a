"""No sequence of public calls reads or writes outside an array: each mistake raises one clear error.

The fuzzer makes random public calls in random order. Compiled code checks no index by itself, so a run
proves more with bounds checks on. ``GREENDC_FUZZ_CALLS`` sets the number of calls, ``GREENDC_FUZZ_SEED`` the
first seed::

    NUMBA_BOUNDSCHECK=1 GREENDC_FUZZ_CALLS=1000000 pytest -s tests/greendc/resource_pool/test_pool_calls.py
"""

from __future__ import annotations

import copy
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pool_cases import FixedWorkload, job_arrays, random_config, random_jobs

from greendc.baselines import make_policy
from greendc.baselines.linear import NoBoundError
from greendc.baselines.resource_pool import HEURISTICS, Foresight, RollingPlan, Rollout, ShortestJobFirst
from greendc.baselines.resource_pool.cpsat import replay
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.energy import SiteConfig
from greendc.energy.kernel import markov_levels
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolEnv, ResourcePoolVectorEnv
from greendc.resource_pool.recording import EpisodeRecorder
from greendc.resource_pool.rendering import describe, gantt
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.vcc import VCCEnv

CALLS = int(os.environ.get("GREENDC_FUZZ_CALLS", "3000"))
SEED = int(os.environ.get("GREENDC_FUZZ_SEED", "0"))
CALLS_OF_A_POOL = 150 if CALLS < 100_000 else 1_500

VCC = VCCEnv(days=1)

REFUSALS = (ValueError, TypeError, RuntimeError, OverflowError)
"""What a wrong call may raise. An ``IndexError`` is none of them: it is what bounds checks raise."""


# --- random calls -------------------------------------------------------------------------------------------


class Caller:
    """Makes random calls on one simulator, its environment and its planners; right ones and wrong ones."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        fixed: dict[str, Any] = {"observation": str(rng.choice(["dict", "dict", "flat"]))}
        fixed["info_jobs"] = bool(rng.random() < 0.2)
        fixed["lookahead"] = int(rng.choice([0, 0, 4]))
        self.config = random_config(rng, **fixed)
        self.kind = str(rng.choice(["single", "recorded", "vector", "bare"]))
        self.base: Any = None
        if self.kind == "vector":
            self.env: Any = ResourcePoolVectorEnv(int(rng.integers(1, 5)), self.config)
            self.simulator = self.env.simulator
        elif self.kind == "bare":
            self.env = None
            self.simulator = ResourcePoolSimulator(self.config, int(rng.integers(1, 5)))
        else:
            self.env = self.base = ResourcePoolEnv(self.config, render_mode="ansi")
            self.simulator = self.base.simulator
            if self.kind == "recorded" and not self.config.skip_forced:
                self.env = EpisodeRecorder(self.base)
        self.out = self.simulator.empty_observations()
        self.policies = [self.policy() for _ in range(2)]
        self.calls: list[Callable[[], object]] = [
            *[self.step] * 12,
            *[self.act] * 6,
            *[self.start_over] * 3,
            *[self.place] * 3,
            *[self.observe] * 3,
            self.look,
            self.render,
            self.record,
            self.copied,
            self.bound,
            self.wrong_policy,
        ]

    def policy(self) -> Any:
        rng, simulator = self.rng, self.simulator
        planners = [] if self.config.pausing else ["rollout", "foresight", "plan"]
        name = str(rng.choice([*HEURISTICS, *HEURISTICS, *planners]))
        options: dict[str, Any] = {}
        if name in HEURISTICS:
            options["dispatch"] = str(rng.choice(["skip", "block", "reserve", "easy"]))
            options["scope"] = "ready" if self.config.skip_forced else str(rng.choice(["ready", "queue"]))
        elif name == "plan":
            options = {"futures": 1, "depth": int(rng.integers(1, 5))}
        else:
            options = {"futures": int(rng.integers(1, 4)), "depth": int(rng.integers(1, 9))}
            options["dispatch"] = str(rng.choice(["skip", "easy"]))
        return make_policy(name, Behind(simulator), **options)

    def index(self) -> Any:
        """A number of an environment, mostly a right one."""
        if self.rng.random() < 0.8:
            return int(self.rng.integers(self.simulator.num_envs))
        return [-1, self.simulator.num_envs, 2**31, -(2**62), 2**70, 0.5, None][self.rng.integers(7)]

    def actions(self) -> Any:
        rng, envs = self.rng, self.simulator.num_envs
        last = self.config.ready_pool_size + 1
        if rng.random() < 0.85:
            masks = self.simulator.action_masks()
            return np.array([rng.choice(np.flatnonzero(mask)) if mask.any() else last for mask in masks])
        wrong = [
            np.full(envs, last + 1),
            np.full(envs, -1),
            np.full(envs, 2**63, np.uint64),
            np.zeros(envs + 1, np.int64),
            np.zeros((envs, 1), np.int64),
            np.zeros(envs),
            np.full(envs, np.nan),
            np.zeros(envs, np.int8),
            np.arange(2 * envs)[::2] % (last + 1),
            np.zeros(envs, ">i8"),
            np.array(["0"] * envs),
            [0] * envs,
            None,
        ]
        return wrong[rng.integers(len(wrong))]

    def batch(self) -> Any:
        """Where observations go, mostly right."""
        if self.rng.random() < 0.9:
            return self.out
        out = self.simulator.empty_observations()
        self.simulator.observe(out)
        if not isinstance(out, dict):
            return [out[:, 1:], out.astype(np.float64), None, [], out[:0]][self.rng.integers(5)]
        key = str(self.rng.choice(list(out)))
        part = out[key]
        frozen = part.copy()
        frozen.flags.writeable = False
        others = [
            part[:, :-1],
            part.astype(np.float64),
            frozen,
            part[:0],
            None,
            np.asfortranarray(part[..., ::-1]),
        ]
        out[key] = others[self.rng.integers(len(others))]
        if self.rng.random() < 0.2:
            del out[key]
        return out

    # --- the calls

    def step(self) -> object:
        actions = self.actions()
        if self.env is None or self.rng.random() < 0.2:
            return self.simulator.step(actions, self.batch())
        if self.kind == "vector":
            return self.env.step(actions)
        action = actions[0] if isinstance(actions, np.ndarray) and len(actions) else actions
        return self.env.step(
            [action, int(1e30), -5, 1.5][self.rng.integers(4)] if self.rng.random() < 0.05 else action
        )

    def act(self) -> object:
        policy = self.policies[self.rng.integers(len(self.policies))]
        if not self.simulator.truncated.any() and self.rng.random() < 0.8:
            self.simulator.observe(self.out)
        observations: Any = self.out
        if self.rng.random() < 0.1:
            observations = self.spoiled()
        actions, _ = (
            policy.predict(observations) if self.rng.random() < 0.8 else (policy.act(observations), None)
        )
        if isinstance(policy, Rollout) and self.rng.random() < 0.3:
            policy.advantages(self.out)
        if self.rng.random() < 0.7:
            self.simulator.step(np.atleast_1d(actions), self.out)
        return None

    def spoiled(self) -> Any:
        """Observations of another shape or dtype, or full of nonsense."""
        rng = self.rng
        change = [
            lambda part: part[:, :-1],
            lambda part: part[:1].astype(np.float64),
            lambda part: (part * 0 + rng.choice([1e30, -1e30, np.nan])).astype(np.float32),
            lambda part: rng.normal(0.0, 50.0, part.shape).astype(np.float32),
            lambda part: np.concatenate([part, part]),
        ][rng.integers(5)]
        with np.errstate(invalid="ignore"):
            if not isinstance(self.out, dict):
                return change(self.out)
            keys = list(self.out) if rng.random() < 0.5 else [str(rng.choice(list(self.out)))]
            return {key: change(part) if key in keys else part for key, part in self.out.items()}

    def options(self) -> Any:
        rng, config = self.rng, self.config
        if rng.random() < 0.6:
            return None
        if rng.random() < 0.5:
            return [{"job": 1}, {"jobs": 3}, 5, {"jobs": {}}][rng.integers(4)]
        steps = int(rng.integers(1, 60))
        jobs = random_jobs(rng, steps, config.units, config.resource_types, config.longest_job)
        if len(jobs) and rng.random() < 0.4:
            field = str(rng.choice(["arrival", "duration", "units", "qos"]))
            worst = [1e-19, 2.0, np.nan, 0.0] if field == "qos" else [-1, 0, 2**40, 2**62]
            getattr(jobs, field)[rng.integers(len(jobs))] = worst[rng.integers(4)]
        elif rng.random() < 0.2:
            jobs = random_jobs(rng, steps, config.units, config.resource_types + 1, config.longest_job)
        return {"jobs": jobs}

    def start_over(self) -> object:
        if self.env is None or self.rng.random() < 0.5:  # of a batch, some environments alone
            generator: Any = self.rng if self.rng.random() < 0.95 else None
            return self.simulator.reset_env(self.index(), generator, self.options())
        seed = None if self.rng.random() < 0.5 else int(self.rng.integers(100))
        return self.env.reset(seed=seed, options=self.options())

    def place(self) -> object:
        index = self.index()
        job = self.rng.choice([-1, 0, 1, 2, 3, 5, 1000, 2**60])
        if self.rng.random() < 0.7 and len(queue := self.simulator.view(index).queue):
            job = self.rng.choice(queue)
        return self.simulator.place(index, job, bool(self.rng.random() < 0.5))

    def observe(self) -> object:
        return self.simulator.observe(self.batch(), self.index() if self.rng.random() < 0.7 else None)

    def look(self) -> object:
        simulator, index = self.simulator, self.index()
        which = self.rng.integers(6)
        if which == 0:
            return simulator.episode_metrics(index)
        if which == 1:
            return simulator.power_series(index)
        if which == 2:
            return simulator.reset_info(index)
        if which == 3:
            return simulator.action_masks()
        view = simulator.view(index)
        return (
            view.job_table(),
            view.ready_jobs(),
            view.cell_jobs(),
            view.levels,
            view.placed,
            view.stored_kwh,
        )

    def render(self) -> object:
        return self.env.render() if self.base is not None else describe(self.simulator, self.index())

    def record(self) -> object:
        if not isinstance(self.env, EpisodeRecorder):
            return None
        record = self.env.record()
        return gantt(record) if self.rng.random() < 0.05 else record.late

    def copied(self) -> object:
        """Go on with a copy, which nothing else shares; the environment closes and goes on as it was."""
        if self.env is not None:
            self.env.close()
            return None
        self.simulator = (
            pickle.loads(pickle.dumps(self.simulator))
            if self.rng.random() < 0.5
            else copy.deepcopy(self.simulator)
        )
        self.policies = [self.policy() for _ in range(2)]
        return None

    def bound(self) -> object:
        instance = recorded_instance(self.simulator, self.index())
        return lp_bound(instance) if self.rng.random() < 0.1 else instance.digest()

    def wrong_policy(self) -> object:
        policy = [ShortestJobFirst, Rollout, Foresight, RollingPlan][self.rng.integers(4)]
        return policy(VCC.unwrapped.simulator)


class Behind:
    """What ``make_policy`` takes: anything with a simulator."""

    def __init__(self, simulator: ResourcePoolSimulator) -> None:
        self.simulator = simulator


def test_random_calls_are_answered_or_refused() -> None:
    done: Counter[str] = Counter()
    calls, seed, began = 0, SEED, time.perf_counter()
    while calls < CALLS:
        caller = Caller(seed)
        for _ in range(min(CALLS_OF_A_POOL, CALLS - calls)):
            call = caller.calls[caller.rng.integers(len(caller.calls))]
            calls += 1
            try:
                call()
            except (*REFUSALS, NoBoundError):
                done[f"{call.__name__} refused"] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}, call {calls}: {call.__name__}") from error
            else:
                done[call.__name__] += 1
        seed += 1
    seconds = time.perf_counter() - began
    print(
        f"\n{calls} calls, {seed - SEED} pools, {calls / seconds:.0f} calls/s: {dict(sorted(done.items()))}"
    )
    for name in ("step", "act", "start_over", "place", "observe"):
        assert done[name] > 0 and done[f"{name} refused"] > 0, name


# --- one mistake each ---------------------------------------------------------------------------------------


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
    assert not simulator.action_masks()[1].any()


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
        with pytest.raises(ValueError, match=rf"index={index}: must be an environment, in 0 \.\. 1"):
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


def test_a_view_outlives_a_reset_with_more_jobs() -> None:
    simulator, _ = begun(1)
    view = simulator.view()
    many = job_arrays(*[(0, 2, (1, 1), 0.5)] * 100)
    simulator.reset_env(0, np.random.default_rng(0), {"jobs": many})
    assert view.queue.tolist() == list(range(100))
    assert len(view.job_table()["arrival"]) == 100


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
