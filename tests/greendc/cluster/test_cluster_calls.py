"""Random public calls in random order: each does what it says or raises one clear error.

``GREENDC_FUZZ_CALLS`` sets the number of calls (default 2,000), ``GREENDC_FUZZ_SEED`` the first seed. Run it
with ``NUMBA_BOUNDSCHECK=1``: a read or write outside an array is then an ``IndexError``, no clear error.
"""

from __future__ import annotations

import collections
import os
import pickle

import numpy as np
import pytest
from cluster_cases import random_config

from greendc.baselines.cluster import HEURISTICS, GuardedRollout
from greendc.cluster import ClusterEnv, ClusterSimulator, ClusterVectorEnv, rendering
from greendc.cluster.rules import RULES

CALLS = int(os.environ.get("GREENDC_FUZZ_CALLS", "2000"))
SEED = int(os.environ.get("GREENDC_FUZZ_SEED", "0"))
SEEDS = 2
"""The calls are divided among as many independent runs."""


class Subject:
    """A simulator, the environment or batch around it, and which episodes have begun."""

    def __init__(self, rng):
        self.config = random_config(rng, 4, 20)
        self.kind = str(rng.choice(["simulator", "env", "batch"]))
        count = 1 if self.kind == "env" else int(rng.integers(1, 4))
        if self.kind == "env":
            self.wrapper = ClusterEnv(self.config, render_mode="ansi")
        elif self.kind == "batch":
            self.wrapper = ClusterVectorEnv(count, self.config)
        else:
            self.wrapper = None
        self.simulator = self.wrapper.simulator if self.wrapper else ClusterSimulator(self.config, count)
        self.begun = np.zeros(count, bool)
        self.out = self.simulator.empty_observations()
        kind = list(HEURISTICS.values())[rng.integers(len(HEURISTICS))]
        self.heuristic = kind(self.simulator, fitting=bool(rng.integers(2)), predicted=bool(rng.integers(2)))
        future = {"futures": int(rng.integers(1, 4)), "horizon": int(rng.integers(0, 5))}
        self.rollout = GuardedRollout(self.simulator, **future, history=int(rng.integers(0, 9)))

    @property
    def over(self):
        return self.simulator.state.cluster["over"] != 0

    def error_of(self, index, goes_on=False):
        """What a call for an environment must raise, ``None`` if nothing."""
        if not isinstance(index, int | np.integer):
            return TypeError
        if not 0 <= index < len(self.begun):
            return ValueError
        return RuntimeError if not self.begun[index] or (goes_on and self.over[index]) else None


class Fuzzer:
    """Makes random calls and checks what comes of them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.calls = 0
        self.log = collections.deque(maxlen=30)
        self.subjects = [Subject(self.rng) for _ in range(3)]
        often = [self.step, self.step, self.take]
        usual = [self.reset, self.bad_step, self.bad_out, self.look, self.observe, self.wrapped]
        seldom = [self.policies, self.play, self.bad_reset, self.duplicate]
        self.menu = 12 * often + 6 * usual + 2 * seldom + [self.replace]

    def run(self, calls):
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

    def index(self, subject):
        if self.rng.random() < 0.7:
            return int(self.rng.integers(len(subject.begun)))
        n = len(subject.begun)
        return [-1, n, n + 1000, 2**63, -(2**40), 0.5, "0", np.int8(-1)][self.rng.integers(8)]

    def actions(self, subject):
        count = int(subject.simulator.action_space.n)
        return self.rng.integers(count, size=len(subject.begun)).astype(
            self.rng.choice([np.int64, np.uint32])
        )

    def bad_actions(self, subject):
        good, n = self.actions(subject), len(subject.begun)
        value = good.astype(np.int64)
        value[self.rng.integers(n)] = self.rng.choice([-1, int(subject.simulator.action_space.n), 2**62])
        choices = [value, good[:-1], np.repeat(good, 2), good[:, None], good.astype(bool), good.astype(float)]
        choices += [good.astype(str), good.astype(object), good.tolist(), None, 1, np.zeros((0,), np.int64)]
        choices += [np.full(n, 2**64 - 1, np.uint64), {"a": good}, good.astype("M8[s]")]
        return choices[self.rng.integers(len(choices))]

    def bad_batch(self, subject):
        key = self.rng.choice(["jobs", "cluster", "capacity", "action_mask"])
        part = subject.out[key]
        read_only = part.copy()
        read_only.setflags(write=False)
        wrong = [part[:-1], np.repeat(part, 2, axis=0), part[..., :-1], np.zeros(part.shape), None]
        every_second = np.zeros((*part.shape[:-1], 2 * part.shape[-1]), part.dtype)[..., ::2]
        wrong += [part.tolist(), None if every_second.flags.carray else every_second]
        wrong += [read_only, part.astype(part.dtype.newbyteorder(">")) if part.itemsize > 1 else None]
        less = {name: value for name, value in subject.out.items() if name != key}
        choices = [{**subject.out, key: value} for value in wrong] + [less, part, None]
        return choices[self.rng.integers(len(choices))]

    def step(self, subject):
        simulator = subject.simulator
        goes_on = bool((subject.begun & ~subject.over).all())
        before = simulator.state.cluster.copy()
        self.call(None if goes_on else RuntimeError, simulator.step, self.actions(subject), subject.out)
        if not goes_on:
            np.testing.assert_array_equal(simulator.state.cluster, before)
            return
        assert (simulator.truncated == subject.over).all()
        self.sound(subject)

    def sound(self, subject):
        """What a step reports is possible."""
        simulator, cluster = subject.simulator, subject.simulator.state.cluster
        assert np.isfinite(simulator.rewards).all() and (simulator.report.seconds >= 0).all()
        assert (simulator.report.cost >= 0).all()
        for key, space in simulator.observation_space.items():
            assert ((subject.out[key] >= space.low) & (subject.out[key] <= space.high)).all(), key
        known = cluster["waiting"] + cluster["running"] + cluster["finished"]
        np.testing.assert_array_equal(known, cluster["arrived"])
        assert (cluster["used"] <= simulator.world.settings["processors"][0]).all()

    def take(self, subject):
        index, simulator = self.index(subject), subject.simulator
        expected = subject.error_of(index, goes_on=True)
        job = int(self.rng.integers(-1, 25))
        if expected is None:
            waiting = simulator.state.queue[index, : simulator.state.cluster[index]["waiting"]].tolist()
            if self.rng.random() < 0.8:
                job = int(self.rng.choice(waiting))
            expected = None if job in waiting else ValueError
        self.call(expected, simulator.take, index, job)

    def bad_step(self, subject):
        self.call((ValueError, RuntimeError), subject.simulator.step, self.bad_actions(subject), subject.out)

    def bad_out(self, subject):
        self.call(ValueError, subject.simulator.step, self.actions(subject), self.bad_batch(subject))
        self.call(ValueError, subject.simulator.observe, self.bad_batch(subject))

    def reset(self, subject):
        for i in range(len(subject.begun)):
            if self.rng.random() < 0.6:
                self.call(None, subject.simulator.reset_env, i, np.random.default_rng(i))
                subject.begun[i] = True

    def bad_reset(self, subject):
        rng, index, options = np.random.default_rng(0), 0, None
        if self.rng.random() < 0.5:
            index = [-1, len(subject.begun), 2**62, 1.5, None][self.rng.integers(5)]
        else:
            options = [{"start": -1}, {"start": 10**9}, {"start": None}, {"day": 1}][self.rng.integers(4)]
        self.call((ValueError, TypeError), subject.simulator.reset_env, index, rng, options)

    def look(self, subject):
        index, simulator = self.index(subject), subject.simulator
        names = ["episode_metrics", "reset_info", "episode_jobs", "in_episode"]
        found = self.call(subject.error_of(index), getattr(simulator, names[self.rng.integers(4)]), index)
        if isinstance(found, dict):
            assert np.isfinite(list(found.values())).all()
        self.call(subject.error_of(index), rendering.summarize, simulator, index)

    def observe(self, subject):
        index = self.index(subject) if self.rng.random() < 0.7 else None
        whole = None if subject.begun.all() else RuntimeError
        expected = whole if index is None else subject.error_of(index)
        self.call(expected, subject.simulator.observe, subject.out, index)

    def policies(self, subject):
        expected = None if subject.begun.all() else RuntimeError
        for policy in (subject.heuristic, subject.rollout):
            found = self.call(expected, policy.predict, subject.out)
            if found is not None:
                subject.simulator.observe(subject.out)
                chosen = subject.out["action_mask"][np.arange(len(subject.begun)), found[0]]
                assert (chosen | subject.over).all()

    def play(self, subject):
        index = self.index(subject)
        if self.rng.random() < 0.5:
            rule = RULES[self.rng.integers(len(RULES))]
            fitting, predicted = bool(self.rng.integers(2)), bool(self.rng.integers(2))
            expected = subject.error_of(index)
            self.call(expected, subject.simulator.play, index, rule, fitting, predicted)
        else:
            expected = subject.error_of(index)
            self.call(expected, subject.rollout.play, index)
        self.call(ValueError, subject.simulator.play, 0, "none")
        if expected is None:
            assert subject.over[index]

    def wrapped(self, subject):
        if subject.kind == "simulator":
            return
        env = subject.wrapper
        kind = self.rng.integers(4)
        if kind == 0:
            self.call(None, env.reset, seed=int(self.rng.integers(99)))
            subject.begun[:] = True
        elif kind == 1 and subject.kind == "env":
            self.call(subject.error_of(0), env.render)
        else:
            actions = self.actions(subject)
            expected = None if bool((subject.begun & ~subject.over).all()) else RuntimeError
            self.call(expected, env.step, actions if subject.kind == "batch" else actions[0])

    def duplicate(self, subject):
        """Put a pickled copy in a subject's place."""
        twin = Subject.__new__(Subject)
        twin.simulator = pickle.loads(pickle.dumps(subject.simulator))
        twin.config, twin.kind, twin.wrapper = twin.simulator.config, "simulator", None
        twin.begun, twin.out = subject.begun.copy(), twin.simulator.empty_observations()
        twin.heuristic, twin.rollout = type(subject.heuristic)(twin.simulator), GuardedRollout(twin.simulator)
        self.subjects[self.rng.integers(len(self.subjects))] = twin

    def replace(self, subject):
        self.subjects[self.rng.integers(len(self.subjects))] = Subject(self.rng)


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_random_calls_work_or_raise_one_clear_error(seed):
    Fuzzer(seed).run(CALLS // SEEDS)
