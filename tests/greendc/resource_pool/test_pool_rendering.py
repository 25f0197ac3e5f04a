"""Pictures of the resource pool, and the record that the Gantt chart is drawn from."""

from __future__ import annotations

import gymnasium as gym
import matplotlib as mpl
import numpy as np
import pytest

import greendc  # noqa: F401 (registers the ids)
from greendc.baselines import make_policy
from greendc.resource_pool import ResourcePoolEnv
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.recording import EpisodeRecord, EpisodeRecorder
from greendc.resource_pool.rendering import (
    DARK_COLOR,
    FREE_COLOR,
    cell_colors,
    gantt,
    job_colors,
    placements,
    pool_figure,
)
from greendc.resource_pool.view import DARK, FREE


@pytest.fixture(autouse=True)
def _no_window() -> None:
    mpl.use("Agg")


def record_of(
    env_id: str, policy: str = "hvf", seed: int = 0, dispatch: str = "skip", **options: object
) -> EpisodeRecord:
    env = EpisodeRecorder(gym.make(env_id, **options))
    player = make_policy(policy, env, dispatch=dispatch)
    observation, _ = env.reset(seed=seed)
    truncated = False
    while not truncated:
        observation, _, _, truncated, _ = env.step(player.predict(observation)[0])
    assert env.finished is not None
    return env.finished


def rares_example() -> ResourcePoolEnv:
    """RARE's Fig. 2: a job of 6 steps on 4 CPU and 4 GPU units waits; later rows have 70 and 80 % power."""
    env = ResourcePoolEnv(render_mode="rgb_array", power_level=0.8)
    jobs = JobArrays(np.zeros(1, np.int64), np.array([6]), np.array([[4, 4]]), np.array([0.5]))
    env.reset(seed=0, options={"jobs": jobs})
    return env


def test_cells_have_the_colors_of_jobs_power_and_nothing() -> None:
    colors = cell_colors(np.array([[FREE, DARK], [3, 4]]))
    np.testing.assert_allclose(colors[0], [FREE_COLOR, DARK_COLOR])
    np.testing.assert_allclose(colors[1], job_colors(np.array([3, 4])))


def test_jobs_that_arrive_together_look_different() -> None:
    colors = job_colors(np.arange(12))
    distance = np.linalg.norm(colors[:, None] - colors[None], axis=2) + np.eye(12)
    assert distance.min() > 0.08


def test_the_picture_shows_the_image_and_the_job_in_one_color() -> None:
    env = rares_example()
    before = pool_figure(env.simulator.view(), "").axes
    env.step(0)
    after = pool_figure(env.simulator.view(), "").axes
    waiting = before[2].patches[1].get_facecolor()[:3]
    for axes in after[:2]:
        image = axes.images[0].get_array()
        assert image.shape == (48, 10, 3)
        np.testing.assert_allclose(image[:6, :4], np.broadcast_to(waiting, (6, 4, 3)))
        np.testing.assert_allclose(image[6:, :8], np.broadcast_to(FREE_COLOR, (42, 8, 3)))
        np.testing.assert_allclose(image[:, 8:], np.broadcast_to(DARK_COLOR, (48, 2, 3)))
    assert "value 24" in before[2].texts[0].get_text()
    assert not after[2].texts


def test_rgb_array_is_a_picture() -> None:
    picture = rares_example().render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (700, 1000, 3)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


@pytest.mark.parametrize(
    "options", [{"units": 50}, {"resource_types": 3}, {"resource_types": 1}, {"ready_pool_size": 25}]
)
def test_every_size_can_be_drawn(options: dict[str, int]) -> None:
    env = gym.make("ResourcePoolGreen-10-v0", render_mode="rgb_array", **options)
    env.reset(seed=0)
    for _ in range(10):
        env.step(options.get("ready_pool_size", 10) + 1)
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (700, 1000, 3)


def test_text_shows_units_power_and_jobs() -> None:
    env = ResourcePoolEnv(render_mode="ansi", power_level=0.8)
    jobs = JobArrays(
        np.zeros(2, np.int64), np.array([2, 3]), np.array([[4, 4], [1, 0]]), np.array([0.5, 0.9])
    )
    env.reset(seed=0, options={"jobs": jobs})
    env.step(0)
    lines = str(env.render()).splitlines()
    assert lines[0] == "step 0 of 500: 1 jobs running, 0 reserved, 1 waiting, 0% of all value earned"
    assert lines[1:3] == ["  +0 AAAA....## AAAA....##", "  +1 AAAA....## AAAA....##"]
    assert lines[3] == "  0: B 3 steps on 1+0, value 2.7, qos 0.90, due at 3"


def test_human_mode_opens_one_window_and_closes_it() -> None:
    import matplotlib.pyplot as plt

    plt.figure("somebody's own")
    env = gym.make("ResourcePool-v0", render_mode="human", episode_steps=2)
    before = plt.get_figlabels()
    env.reset(seed=0)
    env.step(11)
    assert [label for label in plt.get_figlabels() if label not in before] == ["greendc: resource pool"]
    assert plt.gcf().get_size_inches().tolist() == [10.0, 7.0]
    env.close()
    assert plt.get_figlabels() == before
    plt.close("somebody's own")


def test_the_record_has_every_job_where_the_table_says() -> None:
    """Without suspensions the cells of a job are those of its one placement, cut at the episode's end."""
    record = record_of("ResourcePool-v0", dispatch="reserve", episode_steps=120)
    jobs = record.jobs
    assert record.steps == 120
    seen = 0
    for job in range(len(jobs["start"])):
        expected = np.zeros(record.cells.shape, np.bool_)
        if jobs["first_start"][job] >= 0:
            for k in range(2):
                first = 10 * k + jobs["block"][job, k]
                expected[jobs["start"][job] : jobs["end"][job], first : first + jobs["units"][job, k]] = True
            seen += 1
        np.testing.assert_array_equal(record.cells == job, expected)
    assert seen > 20


def test_the_record_keeps_every_part_of_a_suspended_job() -> None:
    record = record_of(
        "ResourcePool-v0", episode_steps=200, power="random", power_level=0.7, forecast_error=0.5
    )
    finished = record.jobs["finish"] >= 0
    suspended = finished & (record.jobs["suspensions"] > 0)
    assert suspended.sum() > 3
    for job in np.flatnonzero(finished):
        executed = (record.cells == job).sum()
        assert executed == record.jobs["duration"][job] * record.jobs["units"][job].sum()
    assert (record.cells[:, :10] == DARK).sum() > 0
    for job in np.flatnonzero(suspended)[:3]:
        blocks = [block for block in placements(record.cells[:, :10]) if block[0] == job]
        assert len(blocks) >= 1
        assert sum(end - start for _, start, end, _, _ in blocks) == record.jobs["duration"][job]


def test_placements_are_read_off_cells() -> None:
    cells = np.array([[7, 7, FREE], [7, 7, 5], [5, 7, 7], [DARK, DARK, DARK]])
    assert placements(cells) == [(7, 0, 2, 0, 2), (5, 1, 2, 2, 1), (5, 2, 3, 0, 1), (7, 2, 3, 1, 2)]


def test_late_jobs_are_those_past_their_latest_finish() -> None:
    record = record_of("ResourcePool-v0", offered_load=1.2, episode_steps=150)
    finish, latest = record.jobs["finish"], record.jobs["latest_finish"]
    expected = [(f > d) if f >= 0 else (d < 150) for f, d in zip(finish, latest, strict=True)]
    assert record.late.tolist() == expected
    assert 0 < sum(expected) < len(expected)


@pytest.mark.parametrize("env_id", ["ResourcePool-10-v0", "ResourcePoolGreen-10-v0", "ResourcePoolHPC-10-v0"])
def test_the_gantt_chart_has_a_block_for_each_placement(env_id: str) -> None:
    record = record_of(env_id, episode_steps=60)
    figure = gantt(record, "title")
    for k in range(2):
        panel = figure.axes[k]
        blocks = placements(record.cells[:, 10 * k : 10 * (k + 1)])
        assert len(panel.patches) == len(blocks)
        hatched = sum(patch.get_hatch() is not None for patch in panel.patches)
        assert hatched == sum(record.late[block[0]] for block in blocks)
    figure.canvas.draw()
    gantt(record, first=20, last=30).canvas.draw()


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="first < last"):
        gantt(record_of("ResourcePool-v0", episode_steps=5), first=3, last=9)
    with pytest.raises(ValueError, match="skip_forced"):
        EpisodeRecorder(gym.make("ResourcePool-v0", skip_forced=True))
    with pytest.raises(ValueError, match="resource-pool"):
        EpisodeRecorder(gym.make("CartPole-v1"))


def test_whole_queue_heuristics_are_recorded_too() -> None:
    env = EpisodeRecorder(gym.make("ResourcePool-v0", ready_pool_size=1, episode_steps=50))
    policy = make_policy("sjf", env, scope="queue")
    observation, _ = env.reset(seed=0)
    for _ in range(50):
        observation, *_ = env.step(policy.predict(observation)[0])
    record = env.record()
    assert (record.cells >= 0).sum() == round(
        env.unwrapped.simulator.episode_metrics(0)["utilization"] * 50 * 20
    )
