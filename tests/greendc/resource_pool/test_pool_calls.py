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
from pool_cases import random_commanded, random_config, random_jobs

from greendc.baselines import make_policy
from greendc.baselines.linear import NoBoundError
from greendc.baselines.resource_pool import (
    HEURISTICS,
    POWER_RULES,
    Foresight,
    RollingPlan,
    Rollout,
    ShortestJobFirst,
)
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolEnv, ResourcePoolVectorEnv
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
        fixed["fragmentation"] = bool(rng.random() < 0.3)
        make = random_config
        if rng.random() < 0.2:
            make = random_commanded
            del fixed["lookahead"]
        self.config = make(rng, **fixed)
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
        if self.config.power_levels is not None:
            planners = [*POWER_RULES, *POWER_RULES, "power_plan"]
        name = str(rng.choice([*HEURISTICS, *HEURISTICS, *planners]))
        options: dict[str, Any] = {}
        if name in HEURISTICS:
            options["dispatch"] = str(rng.choice(["skip", "block", "reserve", "easy"]))
            options["scope"] = "ready" if self.config.skip_forced else str(rng.choice(["ready", "queue"]))
        elif name in POWER_RULES or name == "power_plan":
            options = {}
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
        last = self.config.n_actions - 1
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
