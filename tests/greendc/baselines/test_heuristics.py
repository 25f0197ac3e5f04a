"""Heuristics over observations: their orders, their dispatch variants, and that they keep to the mask."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from heuristic_cases import COLUMN, plain_choice, pool_with, random_config
from stable_baselines3.common.evaluation import evaluate_policy

import greendc
from greendc.baselines import make_policy
from greendc.baselines.resource_pool import HEURISTICS as BY_NAME
from greendc.resource_pool import ResourcePoolEnv, ResourcePoolSimulator, ResourcePoolVectorEnv
from greendc.resource_pool.orders import DISPATCHES

HEURISTICS = tuple(BY_NAME)
ORDERED = tuple(name for name in HEURISTICS if name != "random")


class Holder:
    """What has a simulator is an environment to ``make_policy``."""

    def __init__(self, simulator: ResourcePoolSimulator) -> None:
        self.simulator = simulator


def test_the_family_has_the_papers_heuristics_first() -> None:
    assert HEURISTICS[:4] == ("sjf", "qos", "hvf", "fcfs")
    assert set(HEURISTICS[4:]) == {"random", "edf", "density", "deadline_last", "deadline_never"}


SIX_JOBS = (
    (0, 6, (1, 1), 0.65),  # A: there first
    (0, 3, (1, 1), 0.5),  # F: latest finish at 6
    (1, 2, (1, 0), 0.3),  # B: shortest
    (2, 5, (3, 3), 0.7),  # C: value 21
    (3, 4, (4, 1), 0.9),  # D: QoS value 0.9
    (3, 4, (1, 1), 0.75),  # E: value 6 in 4 steps on a quarter of the pool
)


@pytest.mark.parametrize(
    ("name", "job"),
    [("fcfs", 0), ("edf", 1), ("sjf", 2), ("hvf", 3), ("qos", 4), ("density", 5), ("deadline_last", 4)],
)
def test_each_order_takes_its_own_job(name: str, job: int) -> None:
    simulator, observations = pool_with(*SIX_JOBS)
    for _ in range(3):
        simulator.step(np.array([11]), observations)
    actions, _ = make_policy(name, Holder(simulator)).predict(observations)
    assert actions.tolist() == [job]


@pytest.mark.parametrize("name", ORDERED)
def test_ties_go_to_the_lowest_slot(name: str) -> None:
    simulator, observations = pool_with(*[(0, 3, (1, 1), 0.5)] * 5)
    assert make_policy(name, Holder(simulator)).predict(observations)[0].tolist() == [0]


def test_late_jobs_come_last_or_never() -> None:
    # At step 2 the urgent job is hopeless, and demoted behind the patient one.
    jobs = ((0, 4, (2, 2), 0.9), (0, 4, (1, 1), 0.2))
    expected = {"qos": [1, 0, 11], "deadline_last": [0, 0, 11], "deadline_never": [0, 11]}
    for name, actions in expected.items():
        simulator, observations = pool_with(*jobs)
        for _ in range(2):
            simulator.step(np.array([11]), observations)
        policy = make_policy(name, Holder(simulator))
        for action in actions:
            assert policy.predict(observations)[0].tolist() == [action], name
            simulator.step(np.array([action]), observations)


# Two units are busy until 4. The widest job needs all four, so it can start at 4 at the earliest. Of the
# others, one is done by then; one would be in its way.
BUSY = (0, 4, (2, 2), 1.0)
WIDE, SHORT, LONG = (1, 5, (4, 4), 0.1), (1, 3, (1, 1), 0.1), (1, 6, (1, 1), 0.1)


@pytest.mark.parametrize(
    ("dispatch", "others", "taken"),
    [
        ("skip", (LONG, SHORT), [1, 1]),
        ("block", (LONG, SHORT), []),
        ("reserve", (LONG, SHORT), [0, 0, 0]),
        ("easy", (LONG, SHORT), [2]),
        ("easy", (LONG, LONG), []),
    ],
)
def test_dispatch_variants_let_others_overtake_or_not(
    dispatch: str, others: tuple[tuple[int, int, tuple[int, int], float], ...], taken: list[int]
) -> None:
    simulator, observations = pool_with(BUSY, WIDE, *others)
    policy = make_policy("fcfs", Holder(simulator), dispatch=dispatch)
    for action in [0, 11, *taken, 11]:
        assert policy.predict(observations)[0].tolist() == [action]
        simulator.step(np.array([action]), observations)


def test_easy_looks_at_blocks_not_at_counts() -> None:
    # Three units would do for the first job, but not the three that the long job would leave.
    busy, first, long_job = (0, 4, (2, 0), 1.0), (1, 5, (3, 0), 0.1), (1, 6, (1, 0), 0.1)
    simulator, observations = pool_with(busy, first, long_job)
    policy = make_policy("fcfs", Holder(simulator), dispatch="easy")
    for action in (0, 11, 11, 11, 11, 0):
        assert policy.predict(observations)[0].tolist() == [action]
        simulator.step(np.array([action]), observations)
    assert simulator.view().job_table()["start"].tolist() == [0, 4, 0]


def test_easy_keeps_its_promise_beyond_the_horizon() -> None:
    # The wide job fits no window of the image for now, and still must not be overtaken for ever.
    simulator, observations = pool_with(
        (0, 8, (2, 2), 1.0), (1, 9, (4, 4), 0.05), (1, 9, (1, 1), 0.05), horizon=10
    )
    policy = make_policy("fcfs", Holder(simulator), dispatch="easy")
    simulator.step(np.array([0]), observations)
    simulator.step(np.array([11]), observations)
    assert observations["jobs"][0, 0, COLUMN["valid"]] == 0
    assert policy.predict(observations)[0].tolist() == [11]


def test_easy_never_delays_the_first_job_and_skip_does() -> None:
    delays = {"easy": 0, "skip": 0}
    for dispatch in delays:
        for seed in range(12):
            env = ResourcePoolEnv(late_jobs="stay", offered_load=0.9, episode_steps=150)
            policy = make_policy("fcfs", env, dispatch=dispatch)
            observation, _ = env.reset(seed=seed)
            promised: dict[int, int] = {}
            truncated = False
            while not truncated:
                view = env.simulator.view()
                first = observation["jobs"][0]
                if first[COLUMN["valid"]] > 0:
                    start = view.now + round(float(first[COLUMN["start_offset"]]) * env.config.horizon)
                    promised.setdefault(int(view.queue[0]), start)
                observation, _, _, truncated, _ = env.step(policy.predict(observation)[0])
            started = env.simulator.view().job_table()["first_start"]
            delays[dispatch] += sum(started[job] > start for job, start in promised.items())
    assert delays["easy"] == 0
    assert delays["skip"] > 0


@pytest.mark.parametrize("dispatch", ["skip", "block", "reserve"])
def test_decisions_equal_the_plain_rule(dispatch: str) -> None:
    decisions = 0
    for case in range(40):
        rng = np.random.default_rng(case)
        simulator = ResourcePoolSimulator(random_config(rng))
        simulator.reset_env(0, rng)
        observations = simulator.empty_observations()
        simulator.observe(observations)
        policies = {name: make_policy(name, Holder(simulator), dispatch=dispatch) for name in ORDERED}
        while not simulator.truncated[0]:
            actions = {name: int(policy.predict(observations)[0][0]) for name, policy in policies.items()}
            for name, action in actions.items():
                expected = plain_choice(name, dispatch, observations["jobs"][0], simulator.config.mask)
                assert action == expected, f"case {case}: {name}"
                decisions += action < simulator.config.ready_pool_size
            simulator.step(np.array([rng.choice(list(actions.values()))]), observations)
    assert decisions > 1000


@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.parametrize("name", HEURISTICS)
def test_actions_are_always_valid(name: str, dispatch: str) -> None:
    for case in range(6):
        rng = np.random.default_rng(case)
        simulator = ResourcePoolSimulator(random_config(rng, suspend=bool(case % 2)), num_envs=3)
        for i in range(3):
            simulator.reset_env(i, np.random.default_rng(i))
        observations = simulator.empty_observations()
        simulator.observe(observations)
        suspend = simulator.config.suspend
        policy = make_policy(name, Holder(simulator), dispatch=dispatch, suspend=suspend)
        while not simulator.truncated.any():
            actions, _ = policy.predict(observations)
            assert observations["action_mask"][np.arange(3), actions].all()
            simulator.step(actions, observations)
        assert not any(simulator.episode_metrics(i)["invalid_actions"] for i in range(3))


@pytest.mark.parametrize("scope", ["ready", "queue"])
@pytest.mark.parametrize(
    ("qos", "steps", "suspends"),
    [
        (0.5, 1, True),
        (0.2, 0, False),  # worth as much as the job that runs
        (0.25, 0, True),
        (0.25, 1, False),  # a fifth of the running job's work is done: .2 * 5 / 4
        (0.6, 1, True),
        (0.6, 2, False),  # late
    ],
)
def test_jobs_give_way_to_those_worth_more(scope: str, qos: float, steps: int, suspends: bool) -> None:
    # The second is due 4 steps after its arrival with qos .5, 10 with .2, 8 with .25, 3 with .6.
    simulator, observations = pool_with((0, 5, (4, 4), 0.2), (0, 2, (4, 4), qos), suspend=True)
    simulator.step(np.array([0]), observations)
    for _ in range(steps):
        simulator.step(np.array([11]), observations)
    for suspend in (True, False):
        policy = make_policy("deadline_never", Holder(simulator), scope=scope, suspend=suspend)
        assert policy.reads_state == (suspend or scope == "queue")
        assert policy.predict(observations)[0].tolist() == [10 if suspend and suspends else 11]


def test_suspending_heuristics_earn_more() -> None:
    choice = {"suspend": True, "mask": "now_on_time", "ready_pool_size": 32}
    env = ResourcePoolEnv(**choice, workload="bernoulli", offered_load=0.8)
    earned = []
    for suspend in (False, True):
        policy, total = make_policy("deadline_never", env, dispatch="easy", suspend=suspend), 0.0
        for seed in range(4):
            observation, _ = env.reset(seed=seed)
            truncated = False
            while not truncated:
                observation, _, _, truncated, info = env.step(policy.predict(observation)[0])
            total += info["episode_metrics"]["total_job_value_ratio"]
        earned.append(total)
    assert earned[1] > 1.04 * earned[0]


@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_batched_single_and_flat_observations_give_the_same_episode(dispatch: str) -> None:
    options = {"offered_load": 1.2, "episode_steps": 80, "image_dtype": "float32"}
    env = ResourcePoolVectorEnv(4, **options)
    policy = make_policy("hvf", env, dispatch=dispatch)
    observations, _ = env.reset(seed=3)
    flat, single = ResourcePoolEnv(observation="flat", **options), ResourcePoolEnv(**options)
    flat_policy, one_policy = (make_policy("hvf", e, dispatch=dispatch) for e in (flat, single))
    vector, one = flat.reset(seed=5)[0], single.reset(seed=5)[0]
    truncated = False
    while not truncated:
        actions = policy.predict(observations)[0]
        flat_action, action = flat_policy.predict(vector)[0], one_policy.predict(one)[0]
        assert action.shape == ()
        assert action == actions[2] == flat_action
        observations, _, _, _, _ = env.step(actions)
        vector, one = flat.step(flat_action)[0], None
        one, _, _, truncated, _ = single.step(action)


def test_random_order_is_seeded_and_takes_every_job() -> None:
    simulator, observations = pool_with(*[(0, 3, (1, 1), 0.5)] * 4)
    first, again, other = (make_policy("random", Holder(simulator), seed=seed) for seed in (1, 1, 2))
    draws = [[int(p.predict(observations)[0][0]) for _ in range(200)] for p in (first, again, other)]
    assert draws[0] == draws[1] != draws[2]
    assert (np.bincount(draws[0], minlength=12)[:4] > 30).all()
    assert max(draws[0]) == 3


def test_sb3_evaluates_a_heuristic_like_any_model() -> None:
    env = gym.make("ResourcePool-v0", episode_steps=30)
    rewards, lengths = evaluate_policy(
        make_policy("qos", env), env, n_eval_episodes=2, return_episode_rewards=True, warn=False
    )
    assert len(rewards) == 2
    assert min(lengths) >= 30


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dispatch": "backfill"}, "dispatch='backfill'"), ({"scope": "all"}, "scope='all'")],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_policy("sjf", ResourcePoolEnv(), **options)


def test_jobs_that_cannot_be_suspended_do_not_give_way() -> None:
    with pytest.raises(ValueError, match=r"suspend=True: .* suspend=True"):
        make_policy("sjf", ResourcePoolEnv(), suspend=True)


def test_wrong_names_and_options_are_answered_with_the_nearest() -> None:
    env = ResourcePoolEnv()
    with pytest.raises(ValueError, match="deadline_last"):
        make_policy("deadline_lst", env)
    with pytest.raises(TypeError, match="dispatch"):
        make_policy("sjf", env, dispach="skip")


def test_ids_of_the_family_have_heuristics() -> None:
    for env_id in ("ResourcePoolGreen-10", "ResourcePoolSuspend-10", "ResourcePool-300"):
        env = greendc.make_vec(env_id, 2, episode_steps=20)
        observations, _ = env.reset(seed=0)
        for _ in range(30):
            observations, *_ = env.step(make_policy("density", env, dispatch="easy").predict(observations)[0])
