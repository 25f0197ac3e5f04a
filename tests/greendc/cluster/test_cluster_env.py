"""The cluster environments as Gymnasium and its users expect them."""

from __future__ import annotations

import pickle
import warnings

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import greendc
from greendc.cluster import (
    CapacitySeries,
    ClusterConfig,
    ClusterEnv,
    ClusterJobs,
    ClusterVectorEnv,
    lublin_jobs,
)
from greendc.environments import FINAL_OBSERVATION

IDS = ("Cluster-v0", "Cluster-Lublin-v0", "ClusterGreen-v0")
SHORT = {"episode_jobs": 25, "workload_jobs": 300}


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_checker_has_nothing_to_say(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*version.*")
        check_env(gym.make(env_id, disable_env_checker=True, **SHORT).unwrapped)


def test_ids_belong_to_the_family():
    assert all(greendc.family(env_id) == "cluster" for env_id in IDS)
    assert greendc.resolve_env_id("Cluster-Lublin") == "Cluster-Lublin-v0"


@pytest.mark.parametrize("env_id", IDS)
def test_batch_equals_single_over_several_episodes(env_id):
    n = 3
    batch = greendc.make_vec(env_id, n, **SHORT)
    singles = [gym.make(env_id, **SHORT) for _ in range(n)]
    observations, infos = batch.reset(seed=7)
    for i, env in enumerate(singles):
        observation, info = env.reset(seed=7 + i)
        assert infos["start"][i] == info["start"]
        for key, part in observation.items():
            np.testing.assert_array_equal(observations[key][i], part)
    rng, ended = np.random.default_rng(0), 0
    for _ in range(120):
        mask = observations["action_mask"]
        actions = (rng.random(mask.shape) * mask).argmax(axis=1)
        observations, rewards, _, truncated, infos = batch.step(actions)
        for i, env in enumerate(singles):
            observation, reward, _, cut, info = env.step(actions[i])
            last = infos["final_info"][i] if cut else {"cost": infos["cost"][i]}
            assert (reward, cut, info["cost"]) == (rewards[i], truncated[i], last["cost"])
            if cut:
                ended += 1
                for key, part in observation.items():
                    np.testing.assert_array_equal(infos[FINAL_OBSERVATION][i][key], part)
                assert last["episode_metrics"] == info["episode_metrics"]
                observation, _ = env.reset()
            for key, part in observation.items():
                np.testing.assert_array_equal(observations[key][i], part)
    assert ended > n


def test_a_step_keeps_earlier_observations_and_refuses_what_is_no_action():
    env = gym.make("Cluster-v0", **SHORT).unwrapped
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(0)
    env.reset(seed=0)
    first, _, _, _, _ = env.step(0)
    kept = {key: part.copy() for key, part in first.items()}
    second, _, _, _, info = env.step(0)
    assert info.keys() == {"cost", "seconds", "started"}
    assert {type(value) for value in info.values()} == {float, int}
    for key, part in first.items():
        np.testing.assert_array_equal(part, kept[key])
        assert not np.shares_memory(part, second[key])
        assert part in env.observation_space[key]
    before = env.simulator.state.cluster.copy()
    for action in (-1, env.action_space.n, np.uint64(2**64 - 1)):
        with pytest.raises(ValueError, match=f"action.0.={action}: must be an integer from 0 to"):
            env.step(action)
    for action in (0.0, None, np.zeros(1, np.int64)):
        with pytest.raises(ValueError, match="must be an integer from 0 to"):
            env.step(action)
    assert (env.simulator.state.cluster == before).all()


@pytest.mark.parametrize("env_id", IDS)
def test_observations_stay_within_their_space(env_id):
    env = gym.make(env_id, **SHORT, visible_jobs=8).unwrapped
    observation, _ = env.reset(seed=1)
    for _ in range(200):
        assert env.observation_space.contains(observation)
        assert (env.action_masks() == observation["action_mask"]).all()
        observation, _, _, truncated, _ = env.step(env.np_random.choice(np.flatnonzero(env.action_masks())))
        if truncated:
            observation, _ = env.reset()


def test_pickling_in_mid_episode_changes_nothing():
    env = gym.make("ClusterGreen-v0", **SHORT).unwrapped
    env.reset(seed=1)
    for _ in range(10):
        env.step(0)
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(10):
        a, b = env.step(0), copy.step(0)
        assert a[1:] == b[1:]
        for key, part in a[0].items():
            np.testing.assert_array_equal(part, b[0][key])


def test_an_invalid_action_takes_the_oldest_job_and_is_counted():
    one, other = (ClusterEnv(**SHORT) for _ in range(2))
    for env in (one, other):
        env.reset(seed=3)
    a, b = one.step(77), other.step(0)
    assert a[1] == b[1] and (a[0]["jobs"] == b[0]["jobs"]).all()
    assert one.simulator.episode_metrics(0)["invalid_actions"] == 1


def test_rendering_modes():
    env = gym.make("ClusterGreen-v0", render_mode="rgb_array", **SHORT).unwrapped
    env.reset(seed=0)
    blank = env.render()
    for _ in range(20):
        env.step(0)
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.shape == blank.shape == (600, 900, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    text = gym.make("Cluster-v0", render_mode="ansi", **SHORT).unwrapped
    text.reset(seed=0)
    assert "hour 0.00: 0 of 256 processors in use, 1 jobs waiting" in text.render()
    with pytest.raises(ValueError, match="render_mode='video'"):
        ClusterEnv(render_mode="video")


def test_the_window_is_closed_with_the_environment() -> None:
    env = gym.make("Cluster-Lublin-v0", render_mode="human")
    env.reset(seed=0)
    assert "greendc: cluster" in plt.get_figlabels()
    env.close()
    assert "greendc: cluster" not in plt.get_figlabels()


def test_a_gantt_chart_has_a_block_for_every_stretch_and_never_more_than_the_machine():
    from greendc.cluster.rendering import gantt, lowest_lanes, recorded_pieces, waiting_steps

    env = ClusterEnv(**SHORT, power="green", on_drop="suspend", workload_seed=2)
    env.reset(seed=0)
    env.simulator.play(0, "fcfs")
    simulator = env.simulator
    pieces, log = recorded_pieces(simulator, 0), simulator.episode_jobs(0)
    blocks = lowest_lanes(pieces["start"], pieces["stop"], log["processors"][pieces["job"]], 256)
    widths = [sum(length for _, length in parts) for parts in blocks]
    assert widths == log["processors"][pieces["job"]].tolist()
    assert len(pieces) == 25 + simulator.state.cluster[0]["preemptions"]
    figure = gantt(simulator, 0)
    assert len(figure.axes[0].collections[0].get_paths()) == sum(map(len, blocks))
    edges, waiting = waiting_steps(simulator, 0, int(log["submit"][0]), int(pieces["stop"].max()))
    delays = simulator.state.jobs[0]["delay"].sum()
    assert (np.diff(edges) * waiting).sum() == delays


@pytest.mark.parametrize("hours", [0, -1.0, float("nan"), float("inf"), "3", True])
def test_a_gantt_chart_of_no_time_is_refused(hours):
    from greendc.cluster.rendering import gantt

    env = ClusterEnv(**SHORT)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"hours=.*: must be a finite number above 0, or None"):
        gantt(env.simulator, 0, hours)


def test_a_batch_wants_a_sane_number():
    with pytest.raises(ValueError, match="num_envs=0"):
        ClusterVectorEnv(0)


SMALL = lublin_jobs(0, 30)
WIDE, TOO_WIDE = (CapacitySeries(np.array([0]), np.array([n]), 86_400) for n in (256, 257))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "pbs"}, "profile='pbs': must be one of 'rlscheduler', 'easy'"),
        ({"backfill": "eazy"}, "did you mean 'easy'"),
        ({"profile": "rlscheduler", "backfill": "conservative"}, "backfill='conservative'"),
        ({"profile": "rlscheduler", "power": "green"}, "power='green': must be None in the profile"),
        ({"on_drop": "suspend"}, "on_drop='suspend': has no effect without power"),
        ({"power": "green", "checkpoint_seconds": 5}, "checkpoint_seconds=5: has no effect with on_drop"),
        ({"episode_jobs": 31}, "episode_jobs=31: must be at most the 30 jobs"),
        ({"first_job": 8, "last_job": 20, "episode_jobs": 13}, "last_job=20: must be at least"),
        ({"last_job": 31}, "last_job=31: must be at most the 30"),
        ({"first_job": 99}, "first_job=99: must be below last_job=30"),
        ({"processors": 2}, "workload='job .* processors': must be one of jobs of at most 2"),
        ({"workload": "no.swf"}, "workload='no.swf': must be"),
        ({"reward": "value"}, "reward='value': must be another one"),
        ({"min_qos": 0.0}, "min_qos=0.0"),
        ({"visible_jobs": 0}, "visible_jobs=0"),
        ({"power": 5}, "power=5"),
        ({"power": np.array([4, 2])}, r"power=array\(\[4, 2\]\): must be None, 'green', or a CapacitySeries"),
        ({"power": WIDE, "forecast": np.array([4, 2])}, "forecast=array.*: must be .*or a CapacitySeries"),
        ({"power": WIDE, "processors": 255, "limit_days": 2.0}, "power='up to 256'|workload="),
        ({"power": WIDE, "forecast": "later"}, "forecast='later'"),
        ({"power": WIDE, "forecast": TOO_WIDE, "limit_days": 2.0}, "forecast='up to 257': must be at most"),
        ({"profile": "rlscheduler", "limit_days": 2.0}, "limit_days=2.0: has no effect in the profile"),
        ({"carbon": -1.0}, "carbon=-1.0"),
        ({"busy_watts": 0.0}, "busy_watts=0.0"),
        ({"limit_days": 0.5}, "limit_days=0.5"),
        ({"overestimate": 0.5}, "overestimate=0.5"),
        ({"episode_jobs": True}, "episode_jobs=True: must be a whole number"),
    ],
)
def test_errors_name_the_field(options, words):
    with pytest.raises(ValueError, match=words):
        ClusterEnv(**{"workload": SMALL, "episode_jobs": 10, **options})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kilowatts": np.array([1.0, np.nan])}, r"kilowatts\[1\]=nan: must be 0 or more, and finite"),
        ({"kilowatts": np.array([1.0, np.inf])}, r"kilowatts\[1\]=inf"),
        ({"kilowatts": np.array([-1.0, 1.0])}, r"kilowatts\[0\]=-1.0"),
        ({"step_hours": 0.0}, "step_hours=0.0: must be a second or more"),
        ({"step_hours": float("nan")}, "step_hours=nan"),
        ({"step_hours": 1e300}, "step_hours=1e.300: must be a second or more, and all 2 steps less than"),
        ({"step_hours": 1.6e8}, "step_hours=160000000.0: must be a second or more, and all 2 steps"),
        ({"floor": "0"}, "power_floor='0'"),
        (
            {"kilowatts": np.empty(0)},
            "kilowatts='of shape .0,. and dtype float64': must be a number for each",
        ),
        ({"kilowatts": np.ones((2, 2))}, "kilowatts='of shape .2, 2. .*': must be a number for each step"),
        ({"kilowatts": None}, "kilowatts='of shape .. and dtype object'"),
        ({"processors": 2.5}, "processors=2.5: must be a whole number, 0 or more"),
        ({"processors": -4}, "processors=-4: must be a whole number"),
        ({"processors": "4"}, "processors='4'"),
        ({"kw_each": "0.2"}, "kw_each='0.2': must be above 0, and finite"),
        ({"kw_each": float("inf")}, "kw_each=inf"),
    ],
)
def test_power_that_is_none_is_named(changed, words):
    given = {"kilowatts": np.ones(2), "step_hours": 1.0, "processors": 4, "kw_each": 0.2, "floor": 0.0}
    with pytest.raises(ValueError, match=words):
        CapacitySeries.from_kilowatts(**{**given, **changed})


def few_jobs(processors, run, machine=4):
    count = len(run)
    each = {"run": np.array(run), "request": np.array(run), "processors": np.array(processors)}
    return ClusterJobs(submit=np.zeros(count, np.int64), machine=machine, **each)


@pytest.mark.parametrize(
    ("reward", "metric"),
    [("wait", "mean_wait_h"), ("slowdown", "mean_bounded_slowdown"), ("carbon", "carbon_kg")],
)
def test_the_return_counts_what_was_before_the_first_decision(reward, metric):
    """An hour without power for the job, which two processors idle through."""
    power = CapacitySeries(np.array([0, 3600]), np.array([2, 4]), 86_400)
    options = {"power": power, "power_start": "log", "reward": reward, "episode_jobs": 1}
    env = ClusterEnv(workload=few_jobs([3], [100]), **options)
    env.reset(seed=0)
    _, paid, _, truncated, info = env.step(0)
    assert truncated
    assert info["episode_metrics"]["mean_wait_h"] == 1.0
    assert paid == pytest.approx(-info["episode_metrics"][metric])
    assert info["seconds"] == 100


def test_jobs_pass_one_that_the_forecast_alone_holds_back():
    """The first job would lose its power at 1,000 s; a short one ends before, a long one would delay it."""
    power = CapacitySeries(np.array([0, 1000, 2000]), np.array([4, 0, 4]), 86_400)
    options = {"power": power, "power_start": "log", "admission": "forecast", "backfill": "easy"}
    for run, start in ((500, 0), (1500, 5000)):
        env = ClusterEnv(workload=few_jobs([4, 4], [3000, run]), episode_jobs=2, **options)
        env.reset(seed=0)
        env.simulator.play(0, "fcfs")
        assert env.simulator.state.jobs[0]["start"].tolist() == [2000, start]


def test_what_passes_leaves_room_for_the_whole_run_of_the_one_that_waits():
    """Two processors are spare when the job has room, and one later, while it still runs."""
    power = CapacitySeries(np.array([0, 600, 3600]), np.array([2, 5, 4]), 86_400)
    options = {"power": power, "power_start": "log", "admission": "forecast", "backfill": "easy"}
    env = ClusterEnv(workload=few_jobs([3, 2], [6000, 10_000], machine=5), episode_jobs=2, **options)
    env.reset(seed=0)
    env.simulator.play(0, "fcfs")
    assert env.simulator.state.jobs[0]["start"].tolist() == [600, 6600]


def test_a_job_that_no_episode_has_may_be_larger_than_the_power():
    power = CapacitySeries(np.array([0, 10]), np.array([2, 1]), 86_400)
    options = {"workload": few_jobs([4, 1, 1, 4], [100] * 4), "power": power, "episode_jobs": 1}
    ClusterEnv(**options, first_job=1, last_job=3).reset(seed=0)
    for window in ({"first_job": 1}, {"last_job": 3}):
        with pytest.raises(ValueError, match=r"job . of 4 processors': must be at most 2"):
            ClusterEnv(**options, **window)


def test_an_unknown_option_is_named_with_the_nearest():
    with pytest.raises(TypeError, match="'visible_job'; did you mean 'visible_jobs'"):
        ClusterEnv(visible_job=3)
    with pytest.raises(TypeError, match="config: must be a ClusterConfig"):
        ClusterEnv({"profile": "easy"})


def test_a_start_can_be_chosen_among_the_configured_rows():
    env = ClusterEnv(ClusterConfig(workload=SMALL, episode_jobs=10, first_job=5, last_job=20))
    assert env.reset(options={"start": 10})[1] == {"start": 10}
    assert {env.reset()[1]["start"] for _ in range(60)} == set(range(5, 11))
    for start in (4, 11, -1, 5.0, True):
        with pytest.raises(ValueError, match="reset option start="):
            env.reset(options={"start": start})
    with pytest.raises(ValueError, match="only 'start' is known"):
        env.reset(options={"begin": 3})
    with pytest.raises(TypeError, match="reset options: must be a mapping, not list"):
        env.reset(options=["start"])


def test_a_log_on_disk_is_a_workload(tmp_path):
    path = tmp_path / "log.swf"
    lines = [f"{k} {10 * k} 0 {50 + k} 2 -1 -1 2 100 -1 1 {k % 3} -1 -1 -1 -1 -1 -1" for k in range(1, 40)]
    path.write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    env = gym.make("Cluster-v0", workload=str(path), episode_jobs=20).unwrapped
    env.reset(seed=0)
    assert isinstance(env.simulator.jobs, ClusterJobs) and env.simulator.jobs.machine == 4
    assert env.simulator.state.groups.shape == (1, 9)  # of three users, each with one request, one width
