"""RARE, Fig. 3: how long power of sun and wind exceeds a value in a year, and three days in June."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from greendc.energy import SiteConfig
from greendc.energy.kernel import dispatch
from greendc.traces import gleamm_like
from greendc.traces.power import PowerTrace
from greendc.traces.site_power import site_power
from greendc.traces.weather import read_weather
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import outer_legend, panels
from sb3_greendc.experiments.tasks import Item, Outcome, Task

SOURCES = {"solar": "#e0a030", "wind": "#3182bd", "combined": "#2a9d5c", "with the battery": "#7b3fa0"}
LEVELS = (80, 240)
"""In kW: the critical load, and the whole datacenter."""

GENERATED, MEASURED = "generated year", "measured weather"
SITE = SiteConfig()
DAYS = slice(24 * 160, 24 * 163)
"""10 to 12 June."""

NOTES = (
    'The battery follows the site\'s own rule under a draw of 240 kW. "With the battery" adds what it could '
    "give to sun and wind.",
    "Three generated years are averaged. The generator is calibrated on measured weather of the same plains. "
    "With the printed capacities, that weather does not give the printed shares either.",
)


@dataclass(frozen=True)
class Year(Task):
    """The power of a year, source by source.

    :param seed: of the generated year; not used where there is weather
    :param weather: weather files (NSRDB and WIND Toolkit, or EPW) instead
    """

    seed: int
    weather: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"power of a {MEASURED if self.weather else GENERATED} {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 3.0

    def trace(self) -> PowerTrace:
        """Return the power."""
        if self.weather:
            return site_power(read_weather(self.weather, hub_height=50.0))
        return gleamm_like.generate(self.seed)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        trace = self.trace()
        hours = {"solar": trace.solar_kw, "wind": trace.wind_kw, "combined": trace.total_kw}
        hours["with the battery"] = with_battery(trace.total_kw)
        table = pd.DataFrame(hours).rename_axis("hour").reset_index()
        return Outcome({"episodes": table.assign(year=self.seed)})


def with_battery(generated: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a site can draw at most in each hour: sun, wind, and what the battery then holds.

    :param generated: sun and wind in kW, ``(hours,)``; the site draws its 240 kW whenever it can, without
        the grid
    """
    site = SiteConfig(grid="off").to_record()
    stored, found = SITE.battery.initial_kwh, []
    for kw in generated:
        found.append(kw + min(SITE.battery.discharge_kw, stored))
        *_, stored = dispatch(site, stored, float(kw), SITE.total_kw - SITE.critical_kw, 0.0, 1.0)
    return np.array(found)


def items(budget: Budget) -> list[Item]:
    """Return three generated years, and the measured one where its files are given."""
    found = [Item(Year(seed), {"series": GENERATED}) for seed in range(3)]
    if budget.weather:
        found.append(Item(Year(0, budget.weather), {"series": MEASURED}))
    return found


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return the share of the hours above each level, and both panels."""
    rows = results.table()
    levels = pd.DataFrame(row for row in _shares(rows))
    return Analysis({"levels": levels, "results": _duration(rows)}, {"figure": _figure(rows)}, NOTES)


def _shares(rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    for series, of_series in rows.groupby("series", sort=False):
        for source in SOURCES:
            for level in LEVELS:
                by_year = 100 * (of_series[source] >= level).groupby(of_series["year"]).mean()
                yield {
                    "series": series,
                    "source_of_power": source,
                    "x": level,
                    # The printed shares are those of both sources together.
                    "metric": "hours_at_least" if source == "combined" else f"hours_at_least, {source}",
                    "level_percent": by_year.mean(),
                    "low": by_year.min(),
                    "high": by_year.max(),
                }


def _duration(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the hours, in per cent, in which each source exceeds a power."""
    found = []
    for series, of_series in rows.groupby("series", sort=False):
        for kw in range(0, 1001, 10):
            shares = {source: 100 * (of_series[source] >= max(kw, 1e-9)).mean() for source in SOURCES}
            found.append({"series": series, "kw": kw, **shares})
    return pd.DataFrame(found)


def _figure(rows: pd.DataFrame) -> Figure:
    names = [str(name) for name in rows["series"].unique()]
    titles = [f"{part}: {name}" for name in names for part in ("3a", "3b, three days in June")]
    figure, axes = panels(titles)
    duration = _duration(rows)
    for k, name in enumerate(names):
        above, days = axes[2 * k : 2 * k + 2]
        of_name = duration[duration["series"] == name]
        for source, color in SOURCES.items():
            above.plot(of_name[source], of_name["kw"], color=color, lw=1.6, label=source)
            first = rows[(rows["series"] == name) & (rows["year"] == 0)]
            days.plot(range(72), first[source].to_numpy()[DAYS], color=color, lw=1.4)
        for level, share in ((80, 95), (240, 60)):
            above.plot([share], [level], "k*", ms=9, label="printed (combined)" if level == 80 else None)
            days.axhline(level, color="#999999", lw=0.8, ls=":")
        above.set_xlabel("per cent of the hours")
        above.set_ylabel("power of at least, kW")
        days.set_xlabel("hours")
        days.set_ylabel("kW")
    outer_legend(figure, axes[0])
    return figure


EXPERIMENT = Experiment(
    "rare-fig3",
    "hours of a year in which sun and wind exceed a power, and three days in June",
    items,
    analyze,
)
