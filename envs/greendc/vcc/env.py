"""The VCC environments: one datacenter, and a batch of them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from greendc.config import from_mapping
from greendc.environments import SimulatorEnv, SimulatorVectorEnv
from greendc.simulator import Observation
from greendc.vcc.config import VCCConfig
from greendc.vcc.rendering import WINDOW, draw_week, show, summarize
from greendc.vcc.simulator import VCCSimulator


def make_config(config: VCCConfig | None, options: dict[str, Any]) -> VCCConfig:
    """Return ``config`` (default: version 1's) with ``options`` laid over it."""
    if config is None:
        return from_mapping(VCCConfig, options, owner="VCC environment")
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return from_mapping(VCCConfig, {**fields, **options}, owner="VCC environment")


class VCCEnv(SimulatorEnv):
    """A datacenter that shifts flexible work to cleaner hours by an hourly virtual capacity curve.

    One step is an hour; an episode is ``days`` (30) from midnight, local standard time, of the first of
    a month. The agent caps the load that may run, as a fraction of the capacity C. Inflexible jobs
    always run; flexible jobs wait in the queue when the cap leaves no room, and are suspended when it
    falls below the running load. Delaying saves carbon where cleaner hours follow, and costs when work
    is more than 24 hours late.

    ### Versions

    ``-v0`` has the observation, action, reward and SLO of SustainGym's DatacenterEnv page, on generated
    jobs or a folder of real ones, and months of 30 days; ``-v1`` (the latest) is the same datacenter made
    a sound problem: it observes what the future charges depend on, its SLO counts work and not
    allocation, and its reward has less variance. Ids: ``VCC-2019``, ``VCC-2020``, ``VCC-2021`` (May of
    that year), ``VCC`` (any ``month`` and ``region``) and ``DiscreteVCC-*``; all take the fields of
    :class:`~greendc.vcc.config.VCCConfig` as keyword arguments.

    ### Action space

    ``Box(0, 1, (1,))``: the VCC of the hour that begins; ``Discrete(11)`` for 0, 0.1, ..., 1 in
    ``DiscreteVCC-*``.

    ### Observation space

    ``Box`` of 27 (``-v0``) or 43 (``-v1``) float32, the state before anything happens in the hour. In
    ``-v1`` each is divided by the constant in the last column; raw values are in ``info["observation"]``.
    Their names are in :class:`greendc.vcc.columns.Observation`.

    | index | meaning | raw unit | divided by |
    |---|---|---|---|
    | 0 | VCC of the hour that has passed (1 at t = 0) | fraction of C | 1 |
    | 1 | running load, as the last hour left it | machine units | C |
    | 2 | waiting jobs | jobs | mean jobs a day |
    | 3-26 | forecast emissions of this hour and the next 23 | kg CO2/kWh | 0.66375 |
    | 27, 28 | sine and cosine of the hour of the day | - | 1 |
    | 29 | sum of today's VCC / 24 | - | 1 |
    | 30 | today's no-delay demand so far / 24 | machine units | C |
    | 31 | flexible work that is now more than 24 h late | machine-unit-hours | C |
    | 32 | rank of this hour among the 24 of the forecast (0: cleanest) | - | 1 |
    | 33, 34 | the forecast's mean; this hour less the mean | kg CO2/kWh | 0.66375 |
    | 35-40 | flexible CPU by delay used: 0, 1-5, 6-11, 12-17, 18-23, >= 24 h | machine units | C |
    | 41 | Psi: overdue work if nothing more is delayed, whatever ``slo`` is | machine-unit-hours | C |
    | 42 | what delaying all flexible work this hour adds to the SLO | machine-unit-hours | C |

    ### Order within hour t

    Jobs whose work is done leave; the jobs submitted in t arrive; inflexible jobs start (monitoring
    before production, each on the least-loaded machine; where none has room, flexible jobs of the
    machine with the least inflexible load are evicted, and failing that the job runs outside the
    machines and is counted); while the load exceeds ``a C``, flexible jobs are evicted, latest start
    first, then higher index; waiting jobs start by class (mid, batch, free), then submission, wherever
    they fit under ``a C`` and on the least-loaded machine (an evicted job too); everything that runs
    does an hour of work; the reward is charged with the load and the emissions of t.

    ### Reward

    ``-(carbon_weight * kw_per_unit * (load - load of the no-delay schedule) * moer + slo_weight * slo)``
    in kg and machine-unit-hours; ``-v0`` does not subtract the no-delay schedule. ``slo``:

    - ``"page"`` (``-v0``): at each day's end ``max(0, 0.97 w - C * sum of the day's 24 actions)``, with w
      the machine-unit-hours that the no-delay schedule runs that day;
    - ``"overdue"`` (``-v1``): at each day's end ``max(0, sum_j cpu_j max(0, min(duration_j, age_j - 24)
      - done_j) - 0.03 w)`` over flexible jobs; in the last step also the flexible work undone of what
      the no-delay schedule would have run by then. With ``charge="incurred"`` each hour pays what it
      makes inevitable, ``OD + Psi' - Psi``, which adds up to the same over an episode. Psi takes the
      tolerance of days to come at its mean, ``0.03 * 24 h *`` mean load, so that it does not see
      future jobs; the difference is settled at the day's end.

    With ``constrained=True`` the reward is the carbon part alone. ``info["cost"]`` always has the SLO
    term at day ends as a share of that day's w, without tolerance: 3 % a day is 0.9 an episode.

    ### Start and end

    The jobs still running from the day before fill the cluster (``warm_start``). After ``24 * days``
    steps the episode is truncated; nothing terminates it. ``reset(options={"month": ...})`` picks one
    of several configured months.

    ### Info

    Each step: ``cost``, ``carbon`` (kg), ``slo`` (what the reward charged), ``overdue`` (the plain
    ``overdue`` term at day ends, whatever the reward), ``vcc``, ``load``, ``inflexible_load``,
    ``waiting``, ``moer``, ``observation`` (raw). The last step adds ``episode_metrics``
    (:func:`greendc.vcc.metrics.episode_metrics`).

    ### References

    SustainGym (Yeh et al., NeurIPS Datasets and Benchmarks 2023), DatacenterEnv page; Radovanovic et
    al., "Carbon-Aware Computing for Datacenters", IEEE Trans. Power Systems 2022 (CICS).

    :param config: a configuration; keyword arguments are laid over it
    :param render_mode: ``"rgb_array"`` (the last week as a figure), ``"human"`` or ``"ansi"``
    """

    window = WINDOW
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human", "ansi"], "render_fps": 4}  # type: ignore[misc]
    simulator: VCCSimulator

    def __init__(
        self, config: VCCConfig | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        super().__init__(VCCSimulator(make_config(config, options)), render_mode)

    @property
    def config(self) -> VCCConfig:
        """The configuration."""
        return self.simulator.config

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by an hour; the constraint cost is ``info["cost"]``."""
        observation, reward, truncated, info = self.simulator.step_one(action)
        if truncated:
            info["episode_metrics"] = self.simulator.episode_metrics(0)
        if self.render_mode == "human":
            self.render()
        return observation, reward, False, truncated, info

    def render(self) -> NDArray[np.uint8] | str | None:  # type: ignore[override]
        """Draw the last week: the VCC against the load, the queue, and the emissions."""
        if self.render_mode == "ansi":
            return summarize(self.simulator, 0)
        if self.render_mode == "rgb_array":
            return draw_week(self.simulator, 0)
        if self.render_mode == "human":
            show(self.simulator, 0)
        return None


class VCCVectorEnv(SimulatorVectorEnv):
    """A batch of :class:`VCCEnv` in flat arrays, stepped by one compiled call.

    :param num_envs: number of environments
    :param config: a configuration; keyword arguments are laid over it
    :param threads: that the batch is split among; the numbers are the same
    """

    simulator: VCCSimulator

    def __init__(
        self, num_envs: int = 1, config: VCCConfig | None = None, threads: int = 1, **options: Any
    ) -> None:
        super().__init__(VCCSimulator(make_config(config, options), num_envs, threads))
