"""The Lublin-Feitelson model of parallel jobs, for when no log is at hand.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs", Journal of Parallel and Distributed Computing 63 (2003) 1105-1122; the parameters are those
that they publish for all jobs together, without telling batch from interactive ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.swf import SWF_FIELDS, JobLog

DAY_SECONDS = 86_400.0
FEWEST_NODES = 16
_BUCKETS = 48  # half hours of the daily cycle


@dataclass(frozen=True)
class LublinModel:
    """Sizes, run times and arrivals of rigid parallel jobs.

    - **Size**: one node with probability ``serial_share``; otherwise ``2 ** s`` nodes, with ``s`` uniform in
      two stages (``s_low .. s_mid`` with probability ``s_low_share``, else ``s_mid .. log2(nodes)``) and
      rounded to a whole number for a share ``power_of_two_share`` of all jobs.
    - **Run time**: ``exp(g)`` seconds, ``g`` from one of two gamma distributions (short and long jobs). The
      probability of the short one falls linearly with the size, so that wide jobs tend to be long.
    - **Arrival**: ``exp(g)`` seconds after the job before, ``g`` gamma distributed, on a clock that runs
      fast when many jobs arrive: the daily cycle is a third gamma distribution over half hours.

    :param nodes: size of the machine in nodes, at least 16; 128 in the paper
    :param serial_share: share of jobs on one node
    :param power_of_two_share: share of jobs whose ``s`` is rounded
    :param s_low: the least ``s``
    :param s_mid_below_top: how far ``s_mid`` lies below ``log2(nodes)``
    :param s_low_share: probability that ``s`` lies below ``s_mid``
    :param short_run: shape and scale of ``g``, short jobs
    :param long_run: shape and scale of ``g``, long jobs
    :param short_probability: of the short distribution: at 0 nodes, and its change with each node
    :param gap: shape and scale of ``g`` between arrivals
    :param day: shape and scale of the daily cycle, in half hours
    :param day_start: half hour of the day in which the cycle begins
    :param longest_run: a run time whose ``g`` is greater is drawn again
    :param longest_gap: the same of gaps between arrivals
    :raises ValueError: for fewer than 16 nodes
    """

    nodes: int = 128
    serial_share: float = 0.244
    power_of_two_share: float = 0.576
    s_low: float = 0.8
    s_mid_below_top: float = 2.5
    s_low_share: float = 0.86
    short_run: tuple[float, float] = (4.2, 0.94)
    long_run: tuple[float, float] = (312.0, 0.03)
    short_probability: tuple[float, float] = (0.78, -0.0054)
    gap: tuple[float, float] = (10.2303 * 1.0225, 0.4871)
    day: tuple[float, float] = (8.1737, 3.9631)
    day_start: int = 11
    longest_run: float = 12.0
    longest_gap: float = 13.0

    def __post_init__(self) -> None:
        require(self.nodes >= FEWEST_NODES, "nodes", self.nodes, f"at least {FEWEST_NODES}")

    def sample_sizes(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Draw the nodes of ``count`` jobs, each 1 to ``nodes``."""
        top = np.log2(self.nodes)
        mid = top - self.s_mid_below_top
        low_stage = rng.random(count) < self.s_low_share
        exponent = rng.uniform(np.where(low_stage, self.s_low, mid), np.where(low_stage, mid, top))
        kind = rng.random(count)
        rounded = kind < self.serial_share + self.power_of_two_share
        exponent = np.where(rounded, np.floor(exponent + 0.5), exponent)
        sizes = np.floor(np.exp2(exponent) + 0.5).astype(np.int64)
        sizes[kind < self.serial_share] = 1
        return np.minimum(sizes, self.nodes)

    def sample_run_times(self, rng: np.random.Generator, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw the run time, in whole seconds, of one job of each size.

        One longer than ``exp(12)`` is drawn again.
        """
        intercept, slope = self.short_probability
        short = np.clip(intercept + slope * sizes, 0.0, 1.0)
        exponent = np.full(len(sizes), np.inf)
        while len(again := np.flatnonzero(exponent > self.longest_run)):
            from_short = rng.random(len(again)) < short[again]
            shape = np.where(from_short, self.short_run[0], self.long_run[0])
            scale = np.where(from_short, self.short_run[1], self.long_run[1])
            exponent[again] = rng.gamma(shape, scale)
        run_times: NDArray[np.float64] = np.floor(np.exp(exponent))
        return run_times

    def sample_gaps(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw ``count`` inter-arrival times in seconds of the clock that :meth:`clock_time` reads.

        Longer than ``exp(13)`` is drawn again.
        """
        exponent = np.full(count, np.inf)
        while len(again := np.flatnonzero(exponent > self.longest_gap)):
            exponent[again] = rng.gamma(*self.gap, len(again))
        gaps: NDArray[np.float64] = np.exp(exponent)
        return gaps

    def clock_time(self, cycle_time: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time of day at which the arrival clock shows ``cycle_time``.

        Both clocks show 0 at midnight and agree at each midnight after it; in between, the arrival clock
        runs as fast as jobs arrive at that time of day.

        :param cycle_time: seconds, any shape
        :return: seconds since the first midnight
        """
        from scipy.special import gammainc  # slow to import, and most environments do without

        shape, scale = self.day
        # Half hour i is the one that ends at i / 2 o'clock, except that the day begins with day_start.
        half_hours = self.day_start + np.arange(_BUCKETS)
        share = gammainc(shape, (half_hours + 0.5) / scale) - gammainc(shape, (half_hours - 0.5) / scale)
        rate = np.empty(_BUCKETS)
        rate[(half_hours - 1) % _BUCKETS] = share / share.sum()
        shown = DAY_SECONDS * np.concatenate([[0.0], np.cumsum(rate)])
        shown[-1] = DAY_SECONDS
        midnight = np.floor(cycle_time / DAY_SECONDS) * DAY_SECONDS
        edges = np.linspace(0.0, DAY_SECONDS, _BUCKETS + 1)
        clock: NDArray[np.float64] = midnight + np.interp(cycle_time - midnight, shown, edges)
        return clock


def generate_log(seed: int, jobs: int, model: LublinModel | None = None) -> JobLog:
    """Generate a job log from the model; the same arguments give the same log.

    :param seed: of the random generator
    :param jobs: number of jobs, at least 1
    :param model: the model (default: the published parameters)
    :return: a log with submit and run times in whole seconds and allocated processors; the rest is missing
    :raises ValueError: for less than a job
    """
    require(jobs >= 1, "jobs", jobs, "at least 1")
    model = model or LublinModel()
    rng = np.random.default_rng(seed)
    sizes = model.sample_sizes(rng, jobs)
    table = np.full((jobs, len(SWF_FIELDS)), np.nan)
    columns = {
        "job": np.arange(1, jobs + 1),
        "submit_time": np.floor(model.clock_time(np.cumsum(model.sample_gaps(rng, jobs)))),
        "run_time": model.sample_run_times(rng, sizes),
        "allocated_processors": sizes,
        "status": np.ones(jobs),
    }
    for name, values in columns.items():
        table[:, SWF_FIELDS.index(name)] = values
    header = {
        "Note": f"Lublin-Feitelson model, seed {seed}",
        "MaxJobs": str(jobs),
        "MaxProcs": str(model.nodes),
    }
    return JobLog(table, header, {}, f"lublin(seed={seed})")
