"""The best curve that a search finds when it knows the month: a mark of what is reachable, for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from greendc.baselines.vcc.policy import VCCPolicy, lowest_level_not_below, require_simulator
from greendc.baselines.vcc.rolling import Rolling
from greendc.config import require
from greendc.registration import make_simulator
from greendc.vcc import VCCSimulator

Floats: TypeAlias = NDArray[np.float64]

ROWS = 32
"""Curves that are tried side by side."""
QUANTILES = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
LOWS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
"""Grid of thresholds on the true emissions that the search starts from."""
BLOCKS = (1, 1, 2, 3, 4, 6, 8)
"""Lengths, in hours, of the stretches that a step of the search changes."""
STEPS = (0.03, 0.1, 0.3)
"""Standard deviations of the changes, fractions of C."""


def best_known(
    env_id: str, seed: int, starts: Sequence[Floats] = (), budget: int = 4000, **kwargs: Any
) -> tuple[Floats, dict[str, float]]:
    """Search for the curve of least total cost in the first episode of an environment seeded ``seed``.

    The result is no worse than any of ``starts``: give it what the other policies of a comparison did,
    ``simulator.report.history["vcc"][i]``.

    :param env_id: an id of the family, with or without a version
    :param seed: seed of the episode
    :param starts: curves ``(hours,)`` to start from besides the search's own
    :param budget: months to simulate, about 10 ms each
    :param kwargs: keyword arguments of the environment
    :return: the curve ``(hours,)``, and the metrics of the episode under it
    :raises ValueError: for an id of another family, a curve of another length or outside [0, 1]
    """
    simulator = make_simulator(env_id, 1, **kwargs)
    if not isinstance(simulator, VCCSimulator):
        raise ValueError(f"env_id={env_id!r}: must be a VCC environment")
    simulator.reset_env(0, seeding.np_random(seed)[0])
    search = CurveSearch(simulator, 0)
    curve = search.run(starts, budget)
    return curve, search.metrics(curve)


class BestKnown(VCCPolicy):
    """Search when an episode begins (:class:`CurveSearch`), then follow the curve that was found.

    :param simulator: the simulator to act on
    :param starts: curves to start from besides the search's own, ``(hours,)`` or ``(num_envs, hours)``
    :param budget: months to simulate for each episode
    :raises ValueError: for a negative budget, or curves of another length
    """

    reads_state = True

    def __init__(self, simulator: VCCSimulator, starts: Sequence[Floats] = (), budget: int = 4000) -> None:
        super().__init__(simulator)
        require(budget >= 0, "budget", budget, "0 or more months")
        shape = (simulator.num_envs, simulator.hours)
        for start in starts:
            require(
                np.shape(start) in (shape, shape[1:]), "starts", np.shape(start), f"{shape[1:]} or {shape}"
            )
        self.starts = [np.broadcast_to(start, shape) for start in starts]
        self.budget = budget
        self._curves = np.ones(shape)
        self._found = np.zeros(len(self._curves), dtype=np.bool_)

    def consider(self, actions: Sequence[NDArray[Any]]) -> None:
        """Start from what another policy did in these episodes, too.

        :param actions: for each environment the actions of its episode, ``(hours, *action_space.shape)``
        """
        curves = np.reshape(actions, self._curves.shape).astype(np.float64)
        levels = self.simulator.config.discrete_actions
        self.starts.append(curves if levels is None else curves / (levels - 1))

    def fractions(self, observations: NDArray[np.float32]) -> Floats:
        """Search where an episode begins; follow the curve elsewhere.

        :raises ValueError: if it has not seen an episode's beginning
        """
        chosen = np.empty(len(observations))
        for i in range(len(observations)):
            hour = self.simulator.running_hour(i)
            if hour == 0:
                starts = [start[i] for start in self.starts]
                self._curves[i] = CurveSearch(self.simulator, i).run(starts, self.budget)
                self._found[i] = True
            if not self._found[i]:
                raise ValueError("best_known must see its episodes from the beginning")
            chosen[i] = self._curves[i, hour]
        return chosen


class CurveSearch:
    """Search over the hourly curve of one episode by simulating it.

    It starts from the best of the given curves, the whole capacity, a grid of thresholds on the true
    emissions, and the rolling plan with the true forecast. Then, day by day in turn, it changes a stretch
    of the curve in :data:`ROWS` ways at random, simulates to the end of the month from a copy of the
    cluster at that day's midnight, and keeps the best. The same arguments give the same curve.

    :param simulator: whose environment to search for; it is left as it is
    :param index: the environment, at the beginning of an episode
    :raises ValueError: if the environment is elsewhere in its episode
    """

    def __init__(self, simulator: VCCSimulator, index: int) -> None:
        require_simulator(simulator)
        require(simulator.hour(index) == 0, "hour", simulator.hour(index), "0, the beginning of an episode")
        self.config, self.hours = simulator.config, simulator.hours
        self._moer = simulator.world.moer[simulator.month(index)]
        self._trials = VCCSimulator(self.config, ROWS)
        self._runner = VCCSimulator(self.config, 1)
        self._midnights = VCCSimulator(
            self.config, self.config.days
        )  # row d: day d begins, on the best curve
        self._midnights.copy_env(simulator, index, [0])
        self._out = self._trials.empty_observations(), self._runner.empty_observations()

    def run(self, starts: Sequence[Floats], budget: int) -> Floats:
        """Return the best curve ``(hours,)`` found within a budget of simulated months.

        :raises ValueError: for a curve of another length or outside [0, 1]
        """
        for start in starts:
            require(
                np.shape(start) == (self.hours,), "starts", np.shape(start), f"curves of {self.hours} hours"
            )
            require(bool((np.min(start) >= 0) & (np.max(start) <= 1)), "starts", start, "from 0 to 1")
        curves = np.array([self._allowed(curve) for curve in (*starts, *self._own_starts())])
        parts = range(0, len(curves), ROWS)
        costs = np.concatenate([self._costs(curves[first : first + ROWS], 0) for first in parts])
        curve, cost = curves[np.argmin(costs)], float(costs.min())
        self._remember(curve, 0)
        rng = np.random.default_rng(0)
        spent, day = float(len(curves)), 0
        while spent < budget:
            tried = np.array([self._allowed(self._changed(curve, day, rng)) for _ in range(ROWS)])
            costs = self._costs(tried, day)
            spent += ROWS * (1 - day / self.config.days)
            if costs.min() < cost:
                curve, cost = tried[np.argmin(costs)], float(costs.min())
                self._remember(curve, day)
            day = (day + 1) % self.config.days
        best: Floats = curve
        return best

    def metrics(self, curve: Floats) -> dict[str, float]:
        """Return the metrics of the episode under a curve ``(hours,)``.

        :raises ValueError: for a curve of another length
        """
        require(np.shape(curve) == (self.hours,), "curve", np.shape(curve), f"a curve of {self.hours} hours")
        self._runner.copy_env(self._midnights, 0, [0])
        for hour in range(self.hours):
            self._step(self._runner, curve[hour : hour + 1], self._out[1])
        return self._runner.episode_metrics(0)

    # --- curves ------------------------------------------------------------------------------------

    def _own_starts(self) -> Iterator[Floats]:
        yield np.ones(self.hours)
        # The hours after the last are not known here: the last day is taken to come again.
        forecasts = np.lib.stride_tricks.sliding_window_view(np.append(self._moer, self._moer[-24:]), 24)
        for quantile in QUANTILES:
            clean = self._moer <= np.quantile(forecasts[:-1], quantile, axis=1)
            for low in LOWS:
                yield np.where(clean, 1.0, low)
        for margin in (0, 1):
            yield self._rolling_curve(forecasts, margin)

    def _rolling_curve(self, forecasts: Floats, margin: int) -> Floats:
        planner = Rolling(self._runner, margin)
        self._runner.copy_env(self._midnights, 0, [0])
        curve = np.empty(self.hours)
        for hour in range(self.hours):
            curve[hour : hour + 1] = self._allowed(np.array([planner.fraction(0, forecasts[hour])]))
            self._step(self._runner, curve[hour : hour + 1], self._out[1])
        return curve

    def _allowed(self, curve: Floats) -> Floats:
        """Return the curve as the environment's actions can say it."""
        levels = self.config.discrete_actions
        if levels is None:
            return np.clip(curve, 0.0, 1.0).astype(np.float32).astype(np.float64)
        return lowest_level_not_below(curve, levels) / (levels - 1)

    def _changed(self, curve: Floats, day: int, rng: np.random.Generator) -> Floats:
        """Return the curve with a stretch that begins on a day lifted, lowered or levelled."""
        changed = curve.copy()
        first = 24 * day + int(rng.integers(24))
        stretch = slice(first, first + int(rng.choice(BLOCKS)))
        kind = rng.integers(4)
        if kind == 0:  # as an hour beside it
            changed[stretch] = curve[max(0, first - 1)] if rng.random() < 0.5 else curve[stretch][-1]
        elif kind == 1:
            changed[stretch] = 1.0
        else:
            change = rng.choice(STEPS) * rng.standard_normal()
            changed[stretch] += change
            if kind == 2:  # and the opposite elsewhere within a day
                other = max(24 * day, first + int(rng.integers(-24, 25)))
                changed[other : other + stretch.stop - stretch.start] -= change
        return changed

    # --- simulating --------------------------------------------------------------------------------

    def _costs(self, curves: Floats, day: int) -> Floats:
        """Return the total cost of up to :data:`ROWS` curves that differ from a day's midnight on only."""
        trials = self._trials
        trials.copy_env(self._midnights, day, range(ROWS))
        padded = np.concatenate([curves, np.ones((ROWS - len(curves), self.hours))])
        for hour in range(24 * day, self.hours):
            self._step(trials, padded[:, hour], self._out[0])
        history, config = trials.report.history[: len(curves)], self.config
        carbon, overdue = (history[name].cumsum(axis=1)[:, -1] for name in ("carbon", "overdue"))
        costs: Floats = config.carbon_weight * carbon + config.slo_weight * overdue
        return costs

    def _remember(self, curve: Floats, day: int) -> None:
        """Copy the cluster at each midnight after a day's on the new best curve."""
        self._runner.copy_env(self._midnights, day, [0])
        for hour in range(24 * day, self.hours):
            if hour % 24 == 0 and hour > 24 * day:
                self._midnights.copy_env(self._runner, 0, [hour // 24])
            self._step(self._runner, curve[hour : hour + 1], self._out[1])

    @staticmethod
    def _step(simulator: VCCSimulator, fractions: Floats, out: Any) -> None:
        levels = simulator.config.discrete_actions
        if levels is None:
            simulator.step(fractions[:, None], out)
        else:
            simulator.step(np.rint(fractions * (levels - 1)).astype(np.int64), out)
