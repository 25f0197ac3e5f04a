"""``fetch_traces carbon``: a service's forecast of carbon intensity, as it answers."""

from __future__ import annotations

import argparse
import base64
import json
import os
import urllib.parse
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path

from greendc.traces.carbon_feed import parse_feed
from greendc.traces.power import carbon_trace
from greendc.traces.trace_files import TraceError
from sb3_greendc.cli.network import Get, http_get
from sb3_greendc.cli.shipped import pack
from sb3_greendc.core.files import atomic_write

ELECTRICITY_MAPS = "https://api.electricitymaps.com/v3/carbon-intensity/forecast"
WATTTIME = "https://api.watttime.org"
GREAT_BRITAIN = "https://api.carbonintensity.org.uk"

Ask = Callable[[str | None, Mapping[str, str], Get], bytes]
"""Asks a service for the forecast of a region, with what the environment holds."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Fetch the forecast of a grid's carbon intensity and write the answer as JSON, which every place "
        "that takes a carbon file reads. Accounts are read from the environment: ELECTRICITY_MAPS_TOKEN, or "
        "WATTTIME_USER and WATTTIME_PASSWORD; Great Britain's service needs none."
    )
    parser.add_argument("--service", required=True, choices=sorted(SERVICES), help="whom to ask")
    parser.add_argument(
        "--region",
        help="zone of Electricity Maps (DE), region of WattTime (CAISO_NORTH), or number of a region of "
        "Great Britain (default there: all of it)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="JSON", help="file to write; .gz packs it")


def run(args: argparse.Namespace) -> None:
    """Ask, check that the answer is a whole forecast, and write it as it came.

    :raises TraceError: without an account, a region or a network, or for an answer that is not understood
    """
    if not args.out.name.endswith((".json", ".json.gz")):
        raise TraceError(f"--out {args.out}: must end in .json or .json.gz")
    body = SERVICES[args.service](args.region, os.environ, http_get)
    trace = carbon_trace(parse_feed(body, f"the answer of {args.service}"))
    with atomic_write(args.out) as file:
        file.write(pack(body) if args.out.suffix == ".gz" else body)
    kg = trace.kg_per_kwh
    print(
        f"{args.out}: {len(trace)} steps of {trace.step_hours:g} h from {trace.start:%Y-%m-%d %H:%M%z}; "
        f"{kg.min():.3f} to {kg.max():.3f} kg/kWh"
    )


def electricity_maps(region: str | None, environment: Mapping[str, str], get: Get) -> bytes:
    """Return Electricity Maps' answer for a zone.

    :raises TraceError: without a token or a zone, or if the service refuses
    """
    (token,) = _account(environment, "ELECTRICITY_MAPS_TOKEN")
    zone = urllib.parse.urlencode({"zone": _required(region)})
    return _ask(f"{ELECTRICITY_MAPS}?{zone}", {"auth-token": token}, get)


def watttime(region: str | None, environment: Mapping[str, str], get: Get) -> bytes:
    """Return WattTime's forecast of marginal emissions (version 3).

    :raises TraceError: without an account or a region, or if the service refuses
    """
    user, password = _account(environment, "WATTTIME_USER", "WATTTIME_PASSWORD")
    query = urllib.parse.urlencode({"region": _required(region), "signal_type": "co2_moer"})
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    answer = _ask(f"{WATTTIME}/login", {"Authorization": f"Basic {basic}"}, get)
    try:
        token = json.loads(answer)["token"]
    except (ValueError, KeyError, TypeError):
        raise TraceError(f"{WATTTIME}/login gave no token") from None
    return _ask(f"{WATTTIME}/v3/forecast?{query}", {"Authorization": f"Bearer {token}"}, get)


def great_britain(region: str | None, environment: Mapping[str, str], get: Get) -> bytes:
    """Return the forecast of the next 48 hours in Great Britain, or in one of its 17 regions.

    :raises TraceError: for a region that is no number from 1 to 17, or if the service refuses
    """
    now = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%MZ}"
    url = f"{GREAT_BRITAIN}/intensity/{now}/fw48h"
    if region is not None:
        if region not in map(str, range(1, 18)):
            raise TraceError(f"--region {region}: must be a number from 1 to 17")
        url = f"{GREAT_BRITAIN}/regional/intensity/{now}/fw48h/regionid/{region}"
    return _ask(url, {"Accept": "application/json"}, get)


SERVICES: Mapping[str, Ask] = {
    "electricity-maps": electricity_maps,
    "great-britain": great_britain,
    "watttime": watttime,
}


def _account(environment: Mapping[str, str], *names: str) -> list[str]:
    found = [environment.get(name, "") for name in names]
    if not all(found):
        raise TraceError(f"set {' and '.join(names)} to those of your account")
    return found


def _required(region: str | None) -> str:
    if not region:
        raise TraceError("--region: must be given: this service has no forecast of the whole world")
    return region


def _ask(url: str, headers: Mapping[str, str], get: Get) -> bytes:
    status, body = get(url, headers)
    if status != 200:
        said = " ".join(body.decode("utf-8", "replace").split())[:200]
        raise TraceError(f"{url}: status {status}: {said}")
    return body
