"""``fetch_traces power``: a weather file becomes the power of a site, as CSV."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from greendc.traces.power import PowerTrace, format_power
from greendc.traces.site_power import Generators, site_power
from greendc.traces.trace_files import TraceError
from greendc.traces.weather import read_weather
from sb3_greendc.cli.shipped import pack
from sb3_greendc.core.files import atomic_write

_HELP = {
    "pv_kw": "photovoltaic panels in kW (direct current)",
    "inverter_kw": "largest output of the inverter in kW",
    "tilt": "of the panels from level, in degrees",
    "azimuth": "to which the panels face, in degrees east of north",
    "turbines": "number of 300 kW turbines",
    "hub_height": "of the turbines in m",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Compute hourly solar and wind power in kW from weather: an EPW file, or an NSRDB (PSM CSV) file "
        "and a WIND Toolkit (SRW) file of the same place and year. Files may be gzipped. Needs pvlib."
    )
    parser.add_argument(
        "--weather", nargs="+", type=Path, required=True, metavar="FILE", help="one or two files"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="CSV", help="file to write; .gz packs it")
    for field in dataclasses.fields(Generators):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int if isinstance(field.default, int) else float,
            default=field.default,
            help=f"{_HELP[field.name]} (default: %(default)s)",
        )


def run(args: argparse.Namespace) -> None:
    """Write the trace and print its statistics.

    :raises TraceError: if a file is not as it should be, or pvlib is missing
    """
    generators = Generators(**{name: getattr(args, name) for name in _HELP})
    weather = read_weather(args.weather, generators.hub_height)
    try:
        trace = site_power(weather, generators)
    except ImportError as error:
        raise TraceError(str(error)) from error
    text = format_power(trace)
    with atomic_write(args.out) as file:
        file.write(pack(text) if args.out.suffix == ".gz" else text)
    print(f"{args.out}: {describe(trace)}")


def describe(trace: PowerTrace) -> str:
    """Return one line about a power trace."""
    total = trace.total_kw
    note = " (stamped as 2021: 29 February is missing)" if trace.counts.get("restamped") else ""
    return (
        f"{len(trace)} steps of {trace.step_hours:g} h from {trace.start:%Y-%m-%d %H:%M}{note}; "
        f"solar up to {trace.solar_kw.max():.0f} kW, wind up to {trace.wind_kw.max():.0f} kW, "
        f"mean {total.mean():.0f} kW, at least 240 kW in {(total >= 240).mean():.0%} and 80 kW in "
        f"{(total >= 80).mean():.0%} of the steps"
    )
