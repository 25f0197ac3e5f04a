"""The rules of the resource pool on instances small enough to solve by hand."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from pool_cases import FixedWorkload, job_arrays

from greendc.energy import BatteryConfig, SiteConfig
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolEnv
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.view import DARK, FREE
from greendc.traces.power import PowerTrace


def pool(jobs: JobArrays, mean_value: float = 1.0, **options) -> ResourcePoolEnv:
    """An environment with exactly these jobs, reset."""
    defaults = {"units": 4, "horizon": 6, "ready_pool_size": 3, "episode_steps": 20, "reward": "completion"}
    workload = FixedWorkload(jobs, mean_value)
    env = ResourcePoolEnv(ResourcePoolConfig(**{**defaults, **options}, workload=workload))
    env.reset(seed=0)
    return env


def no_op(env, times=1):
    """Let time go on; the rewards of the steps."""
    return [env.step(env.action_space.n - 1)[1] for _ in range(times)]


def act(env, *actions):
    return [env.step(action)[1] for action in actions]


def cells(env, kind=0):
    """Job ids of one type's units, as text: a row a step, ``.`` free and ``#`` dark."""
    units = env.config.units
    rows = env.simulator.view().cell_jobs()[:, kind * units : (kind + 1) * units]
    symbols = {FREE: ".", DARK: "#"}
    return ["".join(symbols.get(int(cell), str(cell)) for cell in row) for row in rows]


def mask(env):
    return env.action_masks().astype(int).tolist()


def test_the_example_of_rares_figure_2():
    """Ten CPUs and GPUs at 80 %, then 70 % of the power; action 1 places the yellow job, worth 24."""
    green, yellow = (0, 4, (4, 3), 0.8), (0, 6, (4, 4), 0.5)
    env = pool(
        job_arrays(green, yellow),
        units=10,
        horizon=8,
        power="on_off",
        power_level=0.8,
        power_low=0.7,
        on_steps=3,
        off_steps=5,
    )
    assert env.simulator.view().job_table()["value"].tolist() == [4 * 7 * 0.8, 24.0]
    assert cells(env, 0) == cells(env, 1) == ["........##"] * 3 + [".......###"] * 5
    image = env.reset(seed=0)[0]["resources"]
    assert (image[:3, 8:10] == 255).all() and (image[3:, 7:10] == 255).all()
    assert (image[:3, :8] == 0).all() and (image[3:, 17:] == 255).all()
    act(env, 0)
    # Beside the green job, the yellow one fits once the green one has left: row 4 on has 7 lit units.
    assert cells(env, 0) == ["0000....##"] * 3 + ["0000...###"] + [".......###"] * 4
    env.reset(seed=0)
    act(env, 1)
    assert cells(env, 0) == cells(env, 1) == ["1111....##"] * 3 + ["1111...###"] * 3 + [".......###"] * 2
    assert sum(no_op(env, 6)) == 24.0


@pytest.mark.parametrize(("wait", "late", "cost"), [(0, 0, 0.0), (1, 0, 0.0), (2, 1, 0.0), (3, 1, 1.0)])
def test_a_job_that_finishes_one_step_late_costs_nothing(wait, late, cost):
    """It is due at 2, and gone when the third step ends."""
    env = pool(job_arrays((0, 1, (1, 1), 0.5)), cost="delayed", late_jobs="stay", episode_steps=8)
    costs = []
    for step in range(8):
        if step == wait:
            act(env, 0)
        *_, info = env.step(env.config.no_op)
        costs.append(info["cost"])
    assert info["episode_metrics"]["qos_violations"] == late
    assert sum(costs) == cost


def test_a_job_that_is_unfinished_at_its_latest_finish_is_no_violation_yet():
    env = pool(job_arrays((0, 1, (1, 1), 0.5)), late_jobs="stay", episode_steps=8)
    found = []
    for _ in range(3):
        env.step(env.config.no_op)
        metrics = env.simulator.episode_metrics(0)
        found.append((metrics["qos_violations"], metrics["total_job_value_ratio_inside"]))
    assert found == [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0)]


def test_lowest_block_of_each_type_at_the_earliest_start():
    jobs = job_arrays((0, 2, (2, 0), 0.5), (0, 3, (3, 1), 0.5), (0, 1, (2, 4), 0.5))
    env = pool(jobs)
    act(env, 0)
    assert cells(env) == ["00..", "00..", "....", "....", "....", "...."]
    act(env, 0)  # three contiguous CPUs are free from row 2 on
    assert cells(env, 0) == ["00..", "00..", "111.", "111.", "111.", "...."]
    assert cells(env, 1) == ["....", "....", "1...", "1...", "1...", "...."]
    act(env, 0)  # the last needs two CPUs and all GPUs: now
    assert cells(env, 0)[0] == "0022" and cells(env, 1)[0] == "2222"
    assert env.simulator.view().now == 0


def test_an_invalid_action_lets_time_go_on_and_is_counted():
    env = pool(job_arrays((0, 2, (4, 4), 0.5)))
    for action in (1, 2, 3):  # two empty slots; suspend, which is not allowed
        _, _, _, _, info = env.step(action)
        assert info["time_advanced"] == 1
    assert env.simulator.episode_metrics(0)["invalid_actions"] == 3


def test_placement_now_allows_no_reservation():
    jobs = job_arrays((0, 3, (4, 0), 0.5), (0, 1, (1, 0), 0.5))
    reserving, now = pool(jobs), pool(jobs, placement="now")
    act(reserving, 0)
    act(now, 0)
    assert mask(reserving) == [1, 0, 0, 0, 1] and mask(now) == [0, 0, 0, 0, 1]
    _, _, _, _, info = now.step(0)
    assert info["time_advanced"] == 1
    no_op(now, 2)
    assert mask(now) == [1, 0, 0, 0, 1]


def test_latest_finish_decides_who_is_paid():
    # 2 steps at 0.5: done by 4 after arrival. Started at 2 it is on time, at 3 it is not.
    job = job_arrays((0, 2, (1, 1), 0.5))
    for start, paid in ((2, 2.0), (3, 0.0)):
        env = pool(job)
        no_op(env, start)
        act(env, 0)
        assert no_op(env, 2) == [0.0, paid]
        metrics = env.simulator.episode_metrics(0)
        assert metrics["on_time_ratio"] == (paid > 0) and metrics["completion_ratio"] == 1.0
        assert metrics["qos_violations"] == (paid == 0)
        assert metrics["mean_slowdown"] == (start + 2) / 2


@pytest.mark.parametrize(
    ("rule", "queues"),
    [
        # Job 0 (2 steps, due at 2) is hopeless from 1 on; job 1 arrives at 1, job 2 at 2.
        ("demote", [[0], [1, 0], [1, 2, 0]]),
        ("stay", [[0], [0, 1], [0, 1, 2]]),
        ("leave", [[0], [1], [1, 2]]),
    ],
)
def test_the_rule_for_late_jobs(rule, queues):
    jobs = job_arrays((0, 2, (1, 0), 1.0), (1, 1, (1, 0), 0.1), (2, 1, (1, 0), 0.1))
    env = pool(jobs, late_jobs=rule)
    for queue in queues:
        assert env.simulator.view().queue.tolist() == queue
        no_op(env)
    assert env.simulator.episode_metrics(0)["left_jobs"] == (rule == "leave")


@pytest.mark.parametrize(
    ("order", "queues"),
    [
        # The jobs can start until 9, 3, 3 and 1. Of equals the oldest comes first; job 3 is hopeless at 2.
        ("arrival", [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3]]),
        ("latest_start", [[1, 0], [3, 1, 2, 0], [1, 2, 0, 3]]),
    ],
)
def test_the_order_of_the_queue(order, queues):
    jobs = job_arrays((0, 1, (1, 0), 0.1), (0, 3, (1, 0), 0.5), (1, 2, (1, 0), 0.5), (1, 1, (1, 0), 1.0))
    env = pool(jobs, queue_order=order)
    for queue in queues:
        assert env.simulator.view().queue.tolist() == queue
        no_op(env)


def test_a_suspended_job_returns_to_its_place_by_latest_start():
    # They can start until 16, 2 and 14; job 0 fills the pool for a step, and then until 17.
    jobs = job_arrays((0, 4, (4, 4), 0.2), (0, 2, (4, 4), 0.5), (0, 2, (4, 4), 0.125))
    env = pool(jobs, suspend=True, queue_order="latest_start")
    assert env.simulator.view().queue.tolist() == [1, 2, 0]
    act(env, 2)
    no_op(env)
    act(env, 3)
    assert env.simulator.view().queue.tolist() == [2, 0]


def test_potential_reward_telescopes_and_credits_the_decision():
    jobs = job_arrays((0, 2, (1, 1), 0.5), (0, 2, (1, 1), 0.9))
    env = pool(jobs, mean_value=4.0, reward="potential", shaping_gamma=0.9)
    no_op(env)  # the second job, due at 2, is hopeless now: it goes behind
    gamma, value = 0.9, 2.0
    rewards = act(env, 0) + act(env, 0) + no_op(env, 2)
    # phi is the first job's value while it is placed; the late one never counts.
    expected = [gamma * value, gamma * value - value, gamma * value - value, value - value]
    assert rewards == pytest.approx([r / 4.0 for r in expected])


def test_a_job_on_time_and_never_suspended_earns_its_value():
    env = pool(job_arrays((0, 3, (2, 1), 0.7)), reward="dense")
    assert sum(act(env, 0) + no_op(env, 3)) == pytest.approx(3 * 3 * 0.7)


def test_dense_reward_charges_lateness_up_to_the_value():
    weights = {"executed": 0.5, "on_time": 0.5, "lateness": 0.3}
    job = job_arrays((0, 1, (1, 1), 1.0))  # worth 2, due at 1
    env = pool(job, reward=weights)
    assert no_op(env, 6) == pytest.approx([0.0, -0.6, -0.6, -0.6, -0.2, 0.0])
    shy = pool(job, reward=weights, lateness_in_reward=False)
    assert no_op(shy, 6) == [0.0] * 6
    # One step late, executed: half the value, less one step's charge.
    env.reset(seed=0)
    assert no_op(env) + act(env, 0) + no_op(env) == pytest.approx([0.0, 0.0, 1.0 - 0.6])


def test_costs_count_delayed_and_waiting_jobs():
    jobs = job_arrays((0, 1, (1, 0), 1.0), (0, 2, (1, 0), 0.5), (1, 1, (1, 0), 0.5))
    for cost, expected in (("delayed", [0, 1, 1]), ("waiting", [2, 2, 2]), ("weighted", [0.2, 1.2, 1.2])):
        weights = {"cost_weights": (1.0, 0.1)} if cost == "weighted" else {}
        env = pool(jobs, cost=cost, **weights)
        env.step(1)  # the second job runs from 0 to 2
        told = [env.step(4)[4]["cost"] for _ in range(3)]
        assert told == pytest.approx(expected)
        assert env.simulator.episode_metrics(0)["accrued_cost"] == pytest.approx(sum(expected))


def test_suspend_swaps_the_poorest_running_job_for_the_richest_that_fits():
    # Value per unit and step is qos. Job 0 (.2) fills the pool; 1 (.9) is too wide beside 2.
    jobs = job_arrays((0, 4, (4, 4), 0.2), (0, 2, (4, 4), 0.9), (0, 2, (4, 4), 0.5))
    env = pool(jobs, suspend=True, reward="dense")
    assert mask(env) == [1, 1, 1, 0, 1]  # nothing runs yet
    act(env, 0)
    no_op(env)  # one step of work; job 1 is hopeless from now on
    value = 4 * 8 * 0.2
    assert mask(env)[3] == 1
    assert act(env, 3) == [pytest.approx(-0.2 * value)]
    assert cells(env)[0] == "1111" and env.simulator.view().queue.tolist() == [0, 2]
    table = env.simulator.view().job_table()
    assert table["remaining"][0] == 3 and table["suspensions"][0] == 1
    # Job 0 cannot come back in this step; job 2 could take 1's place.
    assert mask(env) == [0, 1, 0, 1, 1]
    no_op(env, 2)
    assert cells(env)[0] == "...."
    assert act(env, 0) == [pytest.approx(0.1 * value)]  # resumed
    rewards = no_op(env, 3)
    late = 0.005 * 8.0  # job 2, due at 4, still waits
    work = 0.5 * value / 4
    assert rewards == pytest.approx([work, work - late, work + 0.5 * value - late])
    assert env.simulator.episode_metrics(0)["agent_suspensions"] == 1


def test_suspend_passes_over_late_jobs_where_the_mask_does():
    # Job 0 (.2) fills the pool; job 1 (.9, due at 2) is late after a step, job 2 (.5, due at 4) is not.
    jobs = job_arrays((0, 4, (4, 4), 0.2), (0, 2, (4, 4), 0.9), (0, 2, (4, 4), 0.5))
    for rule, started in (("valid", 1), ("now", 1), ("now_on_time", 2)):
        env = pool(jobs, suspend=True, mask=rule)
        act(env, 0)
        no_op(env)
        act(env, 3)
        assert env.simulator.view().job_table()["start"].tolist().index(1) == started


def test_delays_occupy_units_before_and_after_the_work():
    jobs = job_arrays((0, 2, (4, 4), 0.4), (0, 1, (1, 1), 0.1))
    env = pool(jobs, start_delay=1, end_delay=1, reward={"executed": 1.0})
    act(env, 0)
    assert cells(env) == ["0000"] * 4 + ["...."] * 2
    value = 2 * 8 * 0.4
    assert no_op(env, 4) == pytest.approx([0.0, value / 2, value / 2, 0.0])
    assert env.simulator.episode_metrics(0)["mean_slowdown"] == 4 / 2


def test_narrow_masks():
    # Job 0 fills the pool until 2. Job 1 (due at 1) is late at once, job 2 is not.
    jobs = job_arrays((0, 2, (3, 0), 0.5), (0, 1, (1, 0), 1.0), (0, 1, (4, 0), 0.1), (1, 1, (1, 0), 0.1))
    for rule, expected in (("valid", [1, 1, 1]), ("now", [0, 1, 1]), ("now_on_time", [0, 1, 0])):
        env = pool(jobs, mask=rule)
        act(env, 0)
        no_op(env)
        assert env.simulator.view().queue.tolist() == [2, 3, 1]
        assert mask(env) == [*expected, 0, 1]


def test_forced_decisions_are_passed_over():
    jobs = job_arrays((0, 3, (4, 4), 0.5), (6, 1, (1, 1), 0.5))
    env = pool(jobs, skip_forced=True, episode_steps=10)
    _, reward, _, truncated, info = env.step(0)
    # The first job is paid at 3; the next choice comes with the second, at 6.
    assert info["time_advanced"] == 6 and reward == 12.0 and not truncated
    _, reward, _, truncated, info = env.step(0)
    assert info["time_advanced"] == 4 and reward == 1.0 and truncated


def green_pool(jobs, wind_kw, battery=None, **options):
    """A pool at a site with this wind; 10 kW critical, 40 kW for 4 units, 10 kW a unit."""
    trace = PowerTrace(np.zeros(len(wind_kw)), np.array(wind_kw), 1.0, datetime(2021, 6, 1, 18))
    site_options = {"total_kw": 50.0, "critical_kw": 10.0, "battery": battery or BatteryConfig(energy_kwh=0)}
    site = SiteConfig(**{**site_options, **options.pop("site", {})})
    steps = len(wind_kw) - options.get("horizon", 6)
    return pool(jobs, power="trace", trace=trace, site=site, episode_steps=steps, **options)


def test_wind_lights_units_and_the_battery_carries_them_on():
    jobs = job_arrays((0, 4, (2, 2), 0.4))
    wind = [60.0, 30.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert cells(green_pool(jobs, wind))[:4] == ["....", "..##", "####", "####"]
    battery = BatteryConfig(
        energy_kwh=100.0, charge_kw=50.0, discharge_kw=20.0, efficiency=1.0, initial_charge=0.2
    )
    env = green_pool(jobs, wind, battery)
    # At full draw 10 kWh are stored at 0, 20 taken at 1, and the last 10 at 2.
    assert cells(env)[:4] == ["....", "....", ".###", "####"]
    assert env.simulator.view().stored_kwh == 20.0
    assert mask(env)[0] == 0
    no_op(env)
    # Nothing was drawn: all 50 kW of surplus are stored, and more is promised for every row.
    assert env.simulator.view().stored_kwh == 70.0
    assert cells(env)[:4] == ["....", "..##", ".###", "####"]
    metrics = env.simulator.episode_metrics(0)
    assert metrics["battery_charged_kwh"] == 50.0 and metrics["curtailed_kwh"] == 0.0


def test_the_critical_load_draws_brown_energy_and_its_carbon():
    env = green_pool(job_arrays((0, 1, (1, 0), 0.5)), [4.0] * 10, carbon=0.5)
    no_op(env, 3)
    metrics = env.simulator.episode_metrics(0)
    assert metrics["brown_kwh"] == pytest.approx(18.0) and metrics["carbon_kg"] == pytest.approx(9.0)
    assert metrics["critical_unserved_kwh"] == 0.0


def test_brown_energy_for_urgent_jobs_alone():
    jobs = job_arrays((0, 2, (2, 2), 0.8), (0, 2, (2, 2), 0.81))
    site = {"grid": "qos_above", "grid_qos_above": 0.8}
    env = green_pool(jobs, [20.0] * 10, site=site)  # 10 kW for the pool: one unit of each type
    assert cells(env)[0] == ".###"
    assert mask(env) == [0, 1, 0, 0, 1]
    act(env, 1)
    assert cells(env)[0] == "11##"
    no_op(env, 2)
    metrics = env.simulator.episode_metrics(0)
    # It draws 20 kW for two hours, of which 10 are green.
    assert metrics["pool_kwh"] == pytest.approx(40.0) and metrics["brown_kwh"] == pytest.approx(20.0)
    # Units on brown energy count as powered while they are used.
    assert metrics["utilization_powered"] == 1.0 and metrics["utilization"] == 8 / 16


def test_reset_can_play_given_jobs_and_masks_are_offered_under_sb3s_name():
    env = ResourcePoolEnv(units=4, horizon=6, episode_steps=5)
    env.reset(seed=1, options={"jobs": job_arrays((0, 2, (4, 4), 0.5))})
    assert env.simulator.view().queue.tolist() == [0]
    assert env.action_masks().dtype == np.bool_


def test_any_waiting_job_can_be_placed_from_outside():
    jobs = job_arrays(*[(0, 2, (4, 0), 0.5)] * 3, (0, 2, (0 + 1, 4), 0.5))
    env = pool(jobs, ready_pool_size=1)
    simulator = env.simulator
    assert simulator.place(0, 3) == 0 and simulator.place(0, 1) == 2
    assert simulator.place(0, 2, now_only=True) == -1 and simulator.view().queue.tolist() == [0, 2]
    with pytest.raises(ValueError, match="job=3: must be the id of a waiting job"):
        simulator.place(0, 3)
    no_op(env)
    assert cells(env, 1)[0] == "3333"
