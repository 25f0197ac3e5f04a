"""What a plain pool shows: the observation of its agent, and the metrics of its episode."""

from __future__ import annotations

import math

import numpy as np
from pool_reference import FINISHED, LEFT, Job, ReferencePool, add_up


def observe(pool: ReferencePool) -> dict[str, np.ndarray]:
    grid = pool.grid()
    return {
        "resources": image(pool, grid),
        "jobs": jobs(pool, grid),
        "context": context(pool, grid),
        "action_mask": np.array(pool.mask(), np.int8),
    }


def image(pool: ReferencePool, grid: list[list[list[Job | None]]]) -> np.ndarray:
    codes = np.zeros((pool.horizon, pool.types * pool.units))
    for h in range(pool.horizon):
        for k in range(pool.types):
            for u in range(pool.units):
                job = grid[h][k][u]
                if job is not None:
                    codes[h, k * pool.units + u] = 64 + job.id * 37 % 128
                elif u >= pool.levels[h]:
                    codes[h, k * pool.units + u] = 255
    if pool.config.image_dtype == "uint8":
        return codes.astype(np.uint8)
    return (codes * (1.0 / 255.0)).astype(np.float32)


def jobs(pool: ReferencePool, grid: list[list[list[Job | None]]]) -> np.ndarray:
    table = np.zeros((pool.config.ready_pool_size, 13 + pool.types), np.float32)
    step = 1.0 / pool.horizon
    long_step = 0.1 * step
    for slot, job in enumerate(pool.ready()):
        found = pool.earliest(job, grid)
        slack = job.latest - pool.now - pool.length(job)
        table[slot] = [
            1.0,
            job.value / (job.value + pool.mean_value),
            job.qos,
            max(-1.0, min(1.0, (job.latest - pool.now) * long_step)),
            min(1.0, (pool.now - job.arrival) * long_step),
            job.duration * step,
            job.remaining * step,
            max(-1.0, min(1.0, slack * step)),
            found[0] * step if found else 1.0,
            found is not None and found[0] == 0,
            found is not None and found[0] <= slack,
            slack < 0,
            pool.schedule_choice(job, grid) is not None,
            *(u * (1.0 / pool.units) for u in job.units),
        ]
    return table


def context(pool: ReferencePool, grid: list[list[list[Job | None]]]) -> np.ndarray:
    n = pool.config.ready_pool_size
    beyond = pool.queue()[n:]
    hopeful = [job for job in beyond if not pool.hopeless(job)]
    hour = pool.start_hour + pool.now * pool.config.step_hours
    numbers = [
        len(beyond) / (len(beyond) + n),
        len(hopeful) / (len(hopeful) + n),
        math.sin(hour * (math.pi / 12.0)),
        math.cos(hour * (math.pi / 12.0)),
    ]
    if pool.site and pool.site.battery.energy_kwh > 0:
        numbers.append(pool.stored / pool.site.battery.energy_kwh)
    for k in range(pool.types):
        for h in range(min(pool.config.context_rows, pool.horizon)):
            free = [grid[h][k][u] is None and u < pool.levels[h] for u in range(pool.units)]
            longest = run = 0
            for is_free in free:
                run = run + 1 if is_free else 0
                longest = max(longest, run)
            numbers += [sum(free) * (1.0 / pool.units), longest * (1.0 / pool.units)]
    if pool.commanded:
        numbers += [pool.on * (1.0 / pool.units), pool.on_next * (1.0 / pool.units), *outlook(pool)]
    return np.array(numbers, np.float32)


def outlook(pool: ReferencePool) -> list[float]:
    """Carbon, price and green share of the next rows."""
    rows = pool.series[pool.now : pool.now + min(24, pool.horizon)]
    green = [
        (solar + wind) * max(0.0, 1.0 + pool.config.forecast_error * (walk - rows[0][3]))
        for solar, wind, _, walk, _ in rows
    ]
    mean = pool.mean_price
    return [
        *(min(row[2], 1.0) for row in rows),
        *(row[4] / (row[4] + mean) if mean else 0.0 for row in rows),
        *(kw / (kw + pool.site.total_kw) for kw in green),
    ]


def episode_metrics(pool: ReferencePool) -> dict[str, float]:
    finished = [job for job in pool.jobs if job.status == FINISHED]
    on_time = [job for job in finished if job.finish <= job.latest]
    inside = [job for job in pool.jobs if job.latest <= pool.now]
    value, value_all = add_up(on_time), add_up(pool.jobs)
    value_inside = add_up([job for job in on_time if job.latest <= pool.now])
    value_all_inside = add_up(inside)
    open_late = [j for j in pool.jobs if j.status not in (FINISHED, LEFT) and j.latest < pool.now]
    slowdown = wait = 0.0
    for j in finished:
        slowdown += (j.finish - j.arrival) / j.duration
        wait += j.finish - j.arrival - j.duration
    units = pool.now * pool.units * pool.types
    metrics = {
        "total_job_value": value,
        "total_job_value_ratio": value / value_all if value_all else 0.0,
        "total_job_value_ratio_inside": value_inside / value_all_inside if value_all_inside else 0.0,
        "arrived_jobs": len(pool.jobs),
        "completed_jobs": len(finished),
        "completion_ratio": len(finished) / len(pool.jobs) if pool.jobs else 0.0,
        "on_time_ratio": len(on_time) / len(pool.jobs) if pool.jobs else 0.0,
        "qos_violations": len(finished) - len(on_time) + pool.counts["left"] + len(open_late),
        "mean_slowdown": slowdown / len(finished) if finished else 0.0,
        "mean_wait": wait / len(finished) if finished else 0.0,
        "utilization": pool.counts["used"] / units if units else 0.0,
        "utilization_powered": pool.counts["used"] / max(pool.counts["powered"], 1),
        "accrued_cost": pool.accrued_cost,
        "accrued_cost_per_step": pool.accrued_cost / pool.now if pool.now else 0.0,
        "accrued_reward": pool.accrued_reward,
        "time_steps": pool.now,
        "decisions": pool.counts["decisions"],
        "invalid_actions": pool.counts["invalid"],
        "agent_suspensions": pool.counts["swaps"],
        "power_suspensions": pool.counts["power_suspensions"],
        "broken_reservations": pool.counts["broken"],
        "left_jobs": pool.counts["left"],
    }
    if pool.site:
        names = (
            ("solar_kwh", "solar"),
            ("wind_kwh", "wind"),
            ("critical_kwh", "critical"),
            ("pool_kwh", "pool"),
            ("battery_charged_kwh", "charged"),
            ("battery_discharged_kwh", "discharged"),
            ("brown_kwh", "grid"),
            ("curtailed_kwh", "curtailed"),
            ("critical_unserved_kwh", "unserved"),
            ("carbon_kg", "carbon"),
        )
        metrics |= {name: pool.energy[key] for name, key in names}
    if pool.commanded:
        metrics |= {
            "grid_cost": pool.grid_cost,
            "switched_units": pool.switched,
            "switching_kwh": pool.switching_kwh,
            "battery_shortfall_kwh": pool.shortfall,
            "settled_carbon_kg": pool.settled_carbon,
        }
    return {name: float(number) for name, number in metrics.items()}
