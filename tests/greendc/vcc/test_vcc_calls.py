"""Random public calls in random order: each does what it says or raises one clear error.

``GREENDC_FUZZ_CALLS`` sets the number of calls (default 8,000), ``GREENDC_FUZZ_SEED`` the first seed. Run it
with ``NUMBA_BOUNDSCHECK=1``: a read or write outside an array is then an ``IndexError``, no clear error.
"""

from __future__ import annotations

import collections
import copy
import os
import pickle
import warnings

import numpy as np
import pytest
from vcc_cases import random_config

import greendc
from greendc.baselines.linear import NoBoundError
from greendc.baselines.vcc import AlwaysOn, BestKnown, Constant, DayAhead, MoerThreshold, Rolling
from greendc.baselines.vcc.best_known import CurveSearch
from greendc.baselines.vcc.bound import cost_bound, digest
from greendc.baselines.vcc.fluid import FluidModel
from greendc.traces.jobs import JobTrace
from greendc.vcc import VCCEnv, VCCSimulator, VCCVectorEnv, rendering

CALLS = int(os.environ.get("GREENDC_FUZZ_CALLS", "8000"))
SEED = int(os.environ.get("GREENDC_FUZZ_SEED", "0"))
SEEDS = 4
"""The calls are divided among as many independent runs."""
CLEAR = (ValueError, RuntimeError, TypeError)
POLICIES = (AlwaysOn, Constant, MoerThreshold, Rolling, DayAhead)


class Subject:
    """A simulator, the environment or batch around it, and what should be true of it."""

    def __init__(self, rng: np.random.Generator) -> None:
        levels = rng.choice([None, 2, 11])
        self.config = random_config(rng, normalize=bool(rng.random() < 0.5), discrete_actions=levels)
        self.kind = str(rng.choice(["simulator", "env", "batch"]))
        count = 1 if self.kind == "env" else int(rng.integers(1, 4))
        if self.kind == "env":
            self.wrapper = VCCEnv(self.config, render_mode="ansi")
        elif self.kind == "batch":
            self.wrapper = VCCVectorEnv(count, self.config)
        else:
            self.wrapper = None
        self.simulator = self.wrapper.simulator if self.wrapper else VCCSimulator(self.config, count)
        self.hours: list[int | None] = [None] * count
        """Of each environment: the hours that have passed, or ``None`` before the first reset."""
        self.out = np.zeros_like(self.simulator.empty_observations())
        self.policies = [kind(self.simulator) for kind in POLICIES]

    @property
    def running(self) -> bool:
        return all(hour is not None and hour < self.simulator.hours for hour in self.hours)

    def error_of(self, index, over=False):
        """What a call for an environment must raise, ``None`` if nothing."""
        if not isinstance(index, int | np.integer):
            return TypeError
        if not 0 <= index < len(self.hours):
            return ValueError
        hour = self.hours[index]
        return RuntimeError if hour is None or (over and hour == self.simulator.hours) else None


class Fuzzer:
    """Makes random calls and checks what comes of them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.calls = 0
        self.log: collections.deque[tuple[object, ...]] = collections.deque(maxlen=30)
        self.subjects = [Subject(self.rng) for _ in range(3)]
        self.pool = greendc.make_vec("ResourcePool-10", 1).simulator
        often = [self.step, self.play]
        usual = [self.reset, self.bad_step, self.bad_out, self.odd_step, self.look, self.observe]
        usual += [self.wrapped]
        seldom = [self.copy, self.decide, self.lines, self.bad_reset, self.bad_wrapped]
        rare = [self.replace, self.duplicate, self.plan]
        self.menu = 60 * often + 12 * usual + 6 * seldom + rare

    def run(self, calls: int) -> None:
        while self.calls < calls:
            subject = self.subjects[self.rng.integers(len(self.subjects))]
            self.menu[self.rng.integers(len(self.menu))](subject)

    def call(self, expected, function, *args, **kwargs):
        """Call a function; it must raise ``expected`` where that is not ``None``, else nothing."""
        self.calls += 1
        self.log.append((getattr(function, "__qualname__", function), args, kwargs))
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            if expected is None or not isinstance(error, expected) or not str(error):
                raise AssertionError(
                    "\n".join([*map(str, self.log), f"raised {error!r}, not {expected}"])
                ) from error
            return None
        assert expected is None, "\n".join([*map(str, self.log), f"accepted, not {expected}"])
        return result

    # --- arguments -----------------------------------------------------------------------------------

    def index(self, subject):
        if self.rng.random() < 0.7:
            return int(self.rng.integers(len(subject.hours)))
        n = len(subject.hours)
        return [-1, n, n + 1000, 2**63, -(2**40), 0.5, "0", np.int8(-1)][self.rng.integers(8)]

    def actions(self, subject):
        n, levels = len(subject.hours), subject.config.discrete_actions
        if levels is not None:
            return self.rng.integers(levels, size=n)
        kind = self.rng.integers(3)
        if kind == 0:
            return self.rng.random((n, 1)).astype(np.float32)
        return self.rng.integers(2, size=(n, 1)).astype([np.float64, np.int16][kind - 1])

    def bad_actions(self, subject):
        good, n = self.actions(subject), len(subject.hours)
        wrong = [-1, 1e9] if subject.config.discrete_actions else [np.nan, np.inf, -1e-9, 1.000001, -(2**31)]
        value = good.astype(np.float64 if subject.config.discrete_actions is None else np.int64)
        value[self.rng.integers(n)] = self.rng.choice(wrong)
        choices = [value, good[:-1], np.repeat(good, 2, axis=0), good[..., None], good.astype(bool)]
        choices += [good.astype(complex), good.astype(str), good.astype(object), good.tolist(), None, 0.5]
        choices += [np.zeros((0, 1)), np.zeros(()), {"a": good}, good.astype("M8[s]")]
        return choices[self.rng.integers(len(choices))]

    def bad_batch(self, subject):
        out = subject.out
        read_only = out.copy()
        read_only.setflags(write=False)
        n, size = out.shape
        misaligned = np.zeros(out.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(out.shape)
        choices = [out[:-1], np.repeat(out, 2, axis=0), out[:, :-1], np.zeros((n, size + 1), np.float32)]
        choices += [out.astype(np.float64), out.astype(">f4"), out.ravel(), out.tolist(), None, {"a": out}]
        choices += [np.zeros((n, 2 * size), np.float32)[:, ::2], read_only, misaligned, out[..., None]]
        return choices[self.rng.integers(len(choices))]

    # --- steps and resets ----------------------------------------------------------------------------

    def step(self, subject, actions=None):
        simulator = subject.simulator
        expected = None if subject.running else RuntimeError
        actions = self.actions(subject) if actions is None else actions
        before = None if expected is None else simulator.state.cluster.copy()
        self.call(expected, simulator.step, actions, subject.out)
        if expected is not None:
            np.testing.assert_array_equal(simulator.state.cluster, before)
            return
        subject.hours = [hour + 1 for hour in subject.hours]
        ended = [hour == simulator.hours for hour in subject.hours]
        assert simulator.truncated.tolist() == ended
        self.sound(subject)

    def sound(self, subject):
        """What a step reports is possible."""
        simulator = subject.simulator
        assert np.isfinite(simulator.rewards).all()
        loads, capacity = simulator.step_info["load"], simulator.trace.cpu.sum() / 1e6
        assert ((loads >= 0) & (loads <= 31 * capacity)).all()
        assert (simulator.step_info["carbon"] >= 0).all()
        space = simulator.observation_space
        assert ((subject.out >= space.low) & (subject.out <= space.high)).all(), list(self.log)

    def play(self, subject):
        """Go on to wherever episodes end, and sometimes a step beyond."""
        for _ in range(self.rng.integers(1, 30)):
            self.step(subject)
            if not subject.running:
                break

    def odd_step(self, subject):
        """Good actions in an array of an unusual form."""
        actions = self.actions(subject)
        forms = [actions[::-1], np.repeat(actions, 2, axis=0)[::2], np.asfortranarray(actions)]
        forms.append(actions.astype(np.int8 if subject.config.discrete_actions else np.float16))
        form = forms[self.rng.integers(len(forms))]
        self.step(subject, form)
        if subject.running and subject.hours[0]:
            levels = subject.config.discrete_actions or 2
            vcc = np.asarray(form, np.float64).reshape(-1) / (levels - 1)
            np.testing.assert_array_equal(subject.simulator.step_info["vcc"], vcc)

    def bad_step(self, subject):
        expected = ValueError if subject.running else (ValueError, RuntimeError)
        self.call(expected, subject.simulator.step, self.bad_actions(subject), subject.out)

    def bad_out(self, subject):
        step, observe = subject.simulator.step, subject.simulator.observe
        self.call(ValueError, step, self.actions(subject), self.bad_batch(subject))
        self.call((ValueError, RuntimeError), observe, self.bad_batch(subject))

    def reset(self, subject):
        for i in range(len(subject.hours)):
            if self.rng.random() < 0.6:
                months = subject.simulator.months
                options = [None, {}, {"month": months[0]}][self.rng.integers(3)]
                self.call(None, subject.simulator.reset_env, i, np.random.default_rng(i), options)
                subject.hours[i] = 0

    def bad_reset(self, subject):
        rng, options = np.random.default_rng(0), None
        index = [-1, len(subject.hours), 2**62, 1.5, None][self.rng.integers(5)]
        if self.rng.random() < 0.5:
            index = 0
            options = [{"month": "1999-01"}, {"months": 1}, {"month": None}][self.rng.integers(3)]
        self.call((ValueError, TypeError), subject.simulator.reset_env, index, rng, options)

    # --- looks ----------------------------------------------------------------------------------------

    def look(self, subject):
        index, simulator = self.index(subject), subject.simulator
        names = ["hour", "running_hour", "month", "unfinished_jobs", "episode_metrics", "reset_info"]
        name = names[self.rng.integers(len(names))]
        expected = subject.error_of(index, over=name == "running_hour")
        found = self.call(expected, getattr(simulator, name), index)
        if expected is None and name == "hour":
            assert found == subject.hours[index]
        if expected is None and name == "episode_metrics":
            assert np.isfinite(list(found.values())).all()
        if expected is None and name == "unfinished_jobs":
            assert (found.cpu > 0).all() and (found.left > 0).all() and (found.delay >= 0).all()

    def observe(self, subject):
        index = self.index(subject) if self.rng.random() < 0.7 else None
        whole = RuntimeError if None in subject.hours else None
        expected = whole if index is None else subject.error_of(index)
        self.call(expected, subject.simulator.observe, subject.out, index)

    def lines(self, subject):
        index = self.index(subject)
        self.call(subject.error_of(index), rendering.summarize, subject.simulator, index)

    # --- environments around the simulator --------------------------------------------------------------

    def wrapped(self, subject):
        if subject.kind == "simulator":
            return
        env, count = subject.wrapper, len(subject.hours)
        kind = self.rng.integers(8)
        if kind == 0:
            self.call(None, env.reset, seed=int(self.rng.integers(99)))
            subject.hours = [0] * count
        elif kind == 1 and subject.kind == "env":
            self.call(subject.error_of(0), env.render)
        else:
            actions = self.actions(subject)
            expected = None if subject.running else RuntimeError
            found = self.call(expected, env.step, actions if subject.kind == "batch" else actions[0])
            if expected is None:
                assert np.isfinite(found[1]).all()
                ended = subject.simulator.hours if subject.kind == "batch" else None
                subject.hours = [0 if hour + 1 == ended else hour + 1 for hour in subject.hours]

    def bad_wrapped(self, subject):
        if subject.kind == "simulator":
            return
        env, clear = subject.wrapper, (ValueError, TypeError, RuntimeError)
        if self.rng.random() < 0.6:
            actions = self.bad_actions(subject)
            if subject.kind == "batch" and actions is not None and not isinstance(actions, list):
                self.call(clear, env.step, actions)
        elif subject.kind == "batch":
            self.call(clear, env.reset, seed=[[1] * (len(subject.hours) + 1), 0.5][self.rng.integers(2)])
        else:
            self.call(clear, env.reset, options={"month": "1999-01"})

    # --- copies -----------------------------------------------------------------------------------------

    def copy(self, subject):
        source = self.subjects[self.rng.integers(len(self.subjects))]
        index, rows = self.index(source), [self.index(subject) for _ in range(self.rng.integers(3))]
        if source.config != subject.config:
            expected = ValueError
        elif source.error_of(index) is not None:
            expected = source.error_of(index)
        else:
            bad = [subject.error_of(row) for row in rows]
            expected = next((error for error in bad if error in (TypeError, ValueError)), None)
        self.call(expected, subject.simulator.copy_env, source.simulator, index, rows)
        if expected is None:
            for row in rows:
                subject.hours[row] = source.hours[index]

    def duplicate(self, subject):
        """Put a copy of another kind in a subject's place, whose configuration both then have."""
        twin = copy.copy(subject)
        how = self.rng.integers(3)
        if how == 0:
            twin.simulator = copy.deepcopy(subject.simulator)
        elif how == 1:
            twin.simulator = pickle.loads(pickle.dumps(subject.simulator))
        else:
            twin.simulator, twin.hours = VCCSimulator(subject.config, 2), [None, None]
        if how < 2:  # a JobTrace is equal to itself alone
            twin.config = twin.simulator.config
        twin.kind, twin.wrapper, twin.hours = "simulator", None, list(twin.hours)
        twin.out = np.zeros_like(twin.simulator.empty_observations())
        twin.policies = [kind(twin.simulator) for kind in POLICIES]
        self.subjects[self.rng.integers(len(self.subjects))] = twin

    def replace(self, subject):
        self.subjects[self.rng.integers(len(self.subjects))] = Subject(self.rng)

    # --- policies and planners --------------------------------------------------------------------------

    def decide(self, subject):
        policy = subject.policies[self.rng.integers(len(POLICIES))]
        kind = self.rng.integers(4)
        if kind == 0:  # not observations of this simulator
            batch = [subject.out[:, :-1], subject.out[0, :5], np.zeros((3, 4, 5), np.float32)]
            self.call(ValueError, policy.predict, batch[self.rng.integers(3)])
        elif kind == 1 and policy.reads_state:
            self.call(ValueError, policy.predict, np.repeat(subject.out, 2, axis=0))
        elif kind == 2 and isinstance(policy, Rolling | DayAhead):
            plan = policy.fraction if isinstance(policy, Rolling) else policy.curve
            index, forecast = self.index(subject), self.rng.random(24)
            self.call(subject.error_of(index, over=True), plan, index, forecast)
            bad = [forecast[:-1], forecast * np.nan, np.zeros(0), forecast[None]]
            self.call(CLEAR, plan, index, bad[self.rng.integers(4)])
        else:
            expected = RuntimeError if policy.reads_state and not subject.running else None
            if expected is None:
                if None in subject.hours:
                    return
                self.call(None, subject.simulator.observe, subject.out)
            actions = self.call(expected, policy.predict, subject.out)
            if expected is None and subject.running:
                self.step(subject, actions[0])

    def plan(self, subject):
        """What takes a tenth of a second."""
        kind, index, simulator = self.rng.integers(6), self.index(subject), subject.simulator
        error = subject.error_of(index)
        begins = error is None and subject.hours[index] == 0
        if kind == 0:
            search = self.call(None if begins else error or ValueError, CurveSearch, simulator, index)
            if search is not None:
                curve = self.call(None, search.run, [np.ones(simulator.hours)], 0)
                self.call(None, search.metrics, curve)
                self.call(ValueError, search.metrics, curve[:-1])
                self.call(ValueError, search.run, [curve[1:]], 0)
        elif kind == 1:
            policy = BestKnown(simulator, budget=0)
            if all(hour == 0 for hour in subject.hours):
                self.call(None, policy.predict, subject.out)
            else:
                self.call((RuntimeError, ValueError), policy.predict, subject.out)
        elif kind == 2:
            lossy = subject.config.eviction_loss_hours > 0
            self.call(NoBoundError if lossy else error, cost_bound, simulator, index)
        elif kind == 3:
            self.call(error, digest, simulator, index)
        elif kind == 4:
            for maker in (Rolling, CurveSearch, cost_bound, digest, FluidModel):
                arguments = (0,) if maker is CurveSearch else ()
                foreign = [self.pool, None, subject.wrapper][self.rng.integers(3)]
                self.call(ValueError, maker, foreign, *arguments)
        else:
            self.call(error, rendering.draw_week, simulator, index)


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_random_calls(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*above 0.8.*")
        Fuzzer(seed).run(-(-CALLS // SEEDS))


def days_of(count, num_envs=1, **options):
    """A batch of the defaults of version 1, of so many days."""
    return greendc.make_vec("VCC-v1", num_envs, days=count, **options).simulator


def test_a_step_after_the_end_is_refused():
    env = greendc.make_vec("VCC-v1", 2, days=1)
    simulator = env.simulator
    env.reset(seed=0)
    out = simulator.empty_observations()
    for _ in range(24):
        simulator.step(np.ones((2, 1)), out)
    rewards, seen = simulator.rewards.copy(), out.copy()
    for _ in range(200):
        with pytest.raises(RuntimeError, match=r"environment 0: the episode is over.*call reset\(\)"):
            simulator.step(np.ones((2, 1)), out)
    np.testing.assert_array_equal(simulator.rewards, rewards)
    np.testing.assert_array_equal(out, seen)
    simulator.reset_env(0, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="environment 1"):
        simulator.step(np.ones((2, 1)), out)
    assert simulator.hour(0) == 0


def test_a_single_environment_refuses_a_step_after_the_end():
    env = VCCEnv(days=1)
    env.reset(seed=0)
    ended = [env.step(np.ones(1))[3] for _ in range(24)]
    assert ended == [False] * 23 + [True]
    with pytest.raises(RuntimeError, match="environment 0: the episode is over"):
        env.step(np.ones(1))


def test_a_step_before_reset_is_refused():
    with pytest.raises(RuntimeError, match=r"environment 0: .*not begun, call reset\(\)"):
        greendc.make_vec("VCC-v1", 2, days=1).step(np.ones((2, 1)))
    with pytest.raises(RuntimeError, match=r"environment 0: .*not begun"):
        VCCEnv(days=1).step(np.ones(1))


@pytest.mark.parametrize("index", [-1, 2, 2**63])
def test_an_environment_out_of_range_is_named(index):
    simulator = days_of(1, 2)
    calls = [
        lambda: simulator.reset_env(index, np.random.default_rng(0)),
        lambda: simulator.observe(simulator.empty_observations(), index),
        lambda: simulator.episode_metrics(index),
        lambda: simulator.copy_env(simulator, index, [0]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"index={index}: must be an environment, from 0 to 1"):
            call()
    simulator.reset_env(0, np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"index={index}"):
        simulator.copy_env(simulator, 0, [1, index])
    assert not simulator._begun[1]


def test_what_a_step_writes_into_is_checked_when_observing_too():
    simulator = days_of(1)
    simulator.reset_env(0, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"out is \(1, 500\) float32: must be \(1, 43\)"):
        simulator.observe(np.zeros((1, 500), np.float32))
    frozen = simulator.empty_observations()
    frozen.setflags(write=False)
    with pytest.raises(ValueError, match="writable"):
        simulator.step(np.ones((1, 1)), frozen)


def long_jobs(count, hours):
    """Jobs of a whole machine each, all submitted at once."""
    ones = np.ones(count, dtype=np.int64)
    return JobTrace(submit_hour=0 * ones, duration=hours * ones, cpu=10**6 * ones, priority=ones, days=1)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (long_jobs(1, 2**31 - 25), "workload='a job of 2147483623 hours': must be one of jobs of at most"),
        (long_jobs(2000, 2**31 - 1000), "machine-unit-hours an episode': must be below 4.61e"),
    ],
)
def test_jobs_too_large_to_count_are_refused(jobs, message):
    given = {"workload": jobs, "days": 4, "capacity": 1.0, "target_load": 0.65}
    with pytest.raises(ValueError, match=message):
        VCCSimulator(random_config(np.random.default_rng(0), **given))
