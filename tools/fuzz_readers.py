"""Damages small files of every kind that the package reads, and judges what each reader makes of them.

A reader may do two things with a damaged file: raise one ``ValueError`` that names the file, in one line; or
return what a second, independent parser reads there (``reader_oracles.py``). Anything else is a failure:
another error, a value where the oracle refuses, or another value. Failures are kept, with their files.

    python tools/fuzz_readers.py                        # 10,000 files a reader
    python tools/fuzz_readers.py swf yaml --count 100000 --seed 7
"""

from __future__ import annotations

import argparse
import collections
import gzip
import io
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

import reader_files as intact
import reader_oracles as oracles
import reader_oracles_jobs as job_oracles
from reader_mutations import flip_bit, mutate, neutral, set_byte, truncate
from reader_oracles import Files, Refuse, Unsure, Values

SLOW = 5.0
"""Seconds of a processor that no small file may take."""


@dataclass(frozen=True)
class Reader:
    """A reader and how it is judged.

    :param files: an intact set of its files, by name
    :param read: reads them from a folder
    :param oracle: returns what is there
    :param packed: whether the bytes are packed or in a binary format, where only bytes can be damaged
    """

    files: Files
    read: Callable[[Path], Values]
    oracle: Callable[[Files], Values]
    packed: bool = False


# --- what the readers return, as the oracles name it --------------------------------------------------------


def _power(name: str, gaps: str = "error") -> Callable[[Path], Values]:
    from greendc.traces import read_power

    def read(folder: Path) -> Values:
        trace = read_power(folder / name, gaps=gaps)
        return {
            "solar": trace.solar_kw,
            "wind": trace.wind_kw,
            "step": trace.step_hours,
            "start": trace.start.isoformat(),
        }

    return read


def _carbon(name: str, gaps: str = "error") -> Callable[[Path], Values]:
    from greendc.traces import read_carbon

    def read(folder: Path) -> Values:
        trace = read_carbon(folder / name, gaps=gaps)
        return {"carbon": trace.kg_per_kwh, "step": trace.step_hours, "start": trace.start.isoformat()}

    return read


def _moer(folder: Path) -> Values:
    from greendc.traces.moer import read_moer

    series = read_moer(folder / "moer.csv", "test")
    values = np.column_stack([series.moer, series.forecast])
    return {"start": int(series.start.astype("datetime64[us]").astype(np.int64)), "values": values}


def _moer_archive(folder: Path) -> Values:
    from greendc.traces import read_moer_archive

    table = read_moer_archive(folder / "SGIP.csv")
    start = table["time"].iloc[0].tz_localize(None).to_datetime64().astype("datetime64[us]").astype(np.int64)
    return {"start": int(start), "values": table.iloc[:, 1:].to_numpy()}


def _swf(folder: Path) -> Values:
    from greendc.traces import read_swf

    log = read_swf(folder / "log.swf")
    return {"table": log.table, "machine": log.machine_processors}


def _sacct(folder: Path) -> Values:
    from greendc.traces.defects import DefectsError
    from greendc.traces.sacct import read_sacct

    try:
        log = read_sacct(folder / "jobs.txt")
    except DefectsError as error:  # all defects, a line each
        raise ValueError(error.lines[0]) from error
    names = ("submit_time", "wait_time", "run_time", "requested_time", "allocated_processors", "status")
    return {"table": np.column_stack([log.column(name) for name in names]), "machine": log.machine_processors}


def _google(folder: Path) -> Values:
    from greendc.traces.google import read_google_jobs

    jobs = read_google_jobs(folder / "day_0.csv")
    return {
        "hour": jobs.submit_hour,
        "duration": jobs.duration,
        "cpu": jobs.cpu,
        "priority": jobs.priority,
    }


def _weather(*names: str) -> Callable[[Path], Values]:
    from greendc.traces.weather import read_weather

    def read(folder: Path) -> Values:
        weather = read_weather([folder / name for name in names], 80.0)
        local, utc = (
            weather.middle.tz_convert(zone)
            .tz_localize(None)
            .to_numpy()
            .astype("datetime64[us]")
            .astype(np.int64)
            for zone in (weather.middle.tz, "UTC")
        )
        offset = (local[0] - utc[0]) / 3.6e9
        return {
            "middle": local,
            "place": np.array([weather.latitude, weather.longitude, offset, weather.altitude]),
            "ghi": weather.ghi,
            "dni": weather.dni,
            "dhi": weather.dhi,
            "temperature": weather.temperature,
            "wind": weather.wind_speed,
            "density": weather.density,
        }

    return read


def _columns(frame: pd.DataFrame) -> Values:
    values: Values = {}
    for name in frame.columns:
        cells = frame[name]
        if pd.api.types.is_numeric_dtype(cells) and cells.dtype != np.bool_:
            values[str(name)] = cells.to_numpy(np.float64)
        else:
            values[str(name)] = [None if pd.isna(cell) else str(cell) for cell in cells]
    return values


def _results(folder: Path) -> Values:
    from sb3_greendc.evaluation.result_files import read_results

    return _columns(read_results(folder / "results.csv")[0])


def _progress(folder: Path) -> Values:
    from sb3_greendc.evaluation.progress import read_runs

    return _columns(read_runs(str(folder / "progress.csv"))[0].table)


def _yaml(folder: Path) -> Values:
    from sb3_greendc.core import yaml

    return {"value": yaml.load(folder / "hparams.yml")}


def _manifest(folder: Path) -> Values:
    from greendc.traces.manifest import read_manifest

    entries = read_manifest(folder)
    return {name: [entry.sha256, entry.license, entry.units] for name, entry in entries.items()}


def _manifest_oracle(files: Files) -> Values:
    if sys.version_info < (3, 11):
        raise Unsure("no tomllib")
    import tomllib

    try:
        tables = tomllib.loads(files["MANIFEST.toml"].decode()).get("trace", [])
        return {table["file"]: [table["sha256"], table["license"], table["units"]] for table in tables}
    except (ValueError, LookupError, TypeError) as error:
        raise Refuse(str(error)) from None


def _dataset(folder: Path) -> Values:
    from sb3_greendc.datasets import OfflineDataset

    data = OfflineDataset.load(folder / "data.npz")
    return {"obs": np.asarray(data.observations), "actions": data.actions, "rewards": data.rewards}


def _dataset_oracle(files: Files) -> Values:
    try:
        with np.load(io.BytesIO(files["data.npz"]), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("obs", "actions", "rewards")}
    except Exception as error:  # whatever zipfile, zlib and NumPy find
        raise Refuse(str(error)) from None


def _unpacked(oracle: Callable[[Files], Values], name: str) -> Callable[[Files], Values]:
    def judge(files: Files) -> Values:
        try:
            return oracle({name: gzip.decompress(files[f"{name}.gz"])})
        except (OSError, EOFError, ValueError) as error:
            raise Refuse(str(error)) from None
        except Exception as error:
            if type(error).__name__ == "error":  # zlib's
                raise Refuse(str(error)) from None
            raise

    return judge


def _parquet_oracle(files: Files) -> Values:
    """Take the cells as text, with PyArrow alone, and let the oracle of CSV files read them."""
    import pyarrow.parquet

    try:
        columns = pyarrow.parquet.read_table(io.BytesIO(files["power.parquet"]))
        names = columns.column_names
        rows = list(zip(*(columns.column(i).to_pylist() for i in range(len(names))), strict=True))
    except Exception as error:  # whatever PyArrow finds
        raise Refuse(str(error)) from None
    if len(set(names)) < len(names):
        raise Refuse("columns")
    return oracles.power_of([dict(zip(names, map(str, row), strict=True)) for row in rows])


def readers() -> dict[str, Reader]:
    """Return every reader by its name."""
    power, carbon = {"power.csv": intact.power_file()}, {"carbon.csv": intact.carbon_file()}
    return {
        "power": Reader(power, _power("power.csv"), oracles.power),
        "power-interpolate": Reader(
            power, _power("power.csv", "interpolate"), lambda files: oracles.power(files, "interpolate")
        ),
        "power-gz": Reader(
            {"power.csv.gz": gzip.compress(intact.power_file(), mtime=0)},
            _power("power.csv.gz"),
            _unpacked(oracles.power, "power.csv"),
            packed=True,
        ),
        "power-parquet": Reader(
            {"power.parquet": intact.parquet_file()}, _power("power.parquet"), _parquet_oracle, packed=True
        ),
        "carbon": Reader(carbon, _carbon("carbon.csv"), oracles.carbon),
        "carbon-interpolate": Reader(
            carbon, _carbon("carbon.csv", "interpolate"), lambda files: oracles.carbon(files, "interpolate")
        ),
        "carbon-feed": Reader(
            {"answer.json": intact.feed_file()}, _carbon("answer.json"), oracles.carbon_feed
        ),
        "moer": Reader({"moer.csv": intact.moer_file()}, _moer, oracles.moer),
        "moer-archive": Reader({"SGIP.csv": intact.archive_file()}, _moer_archive, oracles.moer_archive),
        "swf": Reader({"log.swf": intact.swf_file()}, _swf, job_oracles.swf),
        "sacct": Reader({"jobs.txt": intact.sacct_file()}, _sacct, job_oracles.sacct),
        "google": Reader({"day_0.csv": intact.google_file()}, _google, oracles.google),
        "epw": Reader({"place.epw": intact.epw_file()}, _weather("place.epw"), oracles.epw),
        "nsrdb": Reader(intact.nsrdb_files(), _weather("sun.csv", "wind.srw"), oracles.nsrdb),
        "results": Reader({"results.csv": intact.plain_results_file()}, _results, oracles.results),
        "results-quoted": Reader({"results.csv": intact.results_file()}, _results, oracles.results),
        "progress": Reader({"progress.csv": intact.progress_file()}, _progress, oracles.progress),
        "yaml": Reader({"hparams.yml": intact.yaml_file()}, _yaml, oracles.yaml_value),
        "manifest": Reader({"MANIFEST.toml": intact.manifest_file()}, _manifest, _manifest_oracle),
        "dataset": Reader({"data.npz": intact.dataset_file()}, _dataset, _dataset_oracle, packed=True),
    }


# --- judging ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What became of one set of files.

    :param outcome: ``"error"`` (named), ``"value"`` (right), ``"unsure"`` or ``"failure"``
    :param why: of a failure
    """

    outcome: str
    why: str = ""


def judge(reader: Reader, files: Files, folder: Path) -> Verdict:
    """Write files into a folder, read them, and compare with the oracle.

    :param reader: reads and is judged
    :param files: by name
    :param folder: is overwritten
    """
    for name, data in files.items():
        (folder / name).write_bytes(data)
    began = time.process_time()
    try:
        found = reader.read(folder)
    except ValueError as error:
        return _judge_error(str(error), files)
    except Exception as error:
        return Verdict("failure", f"{type(error).__name__}: {error}")
    finally:
        seconds = time.process_time() - began
    if seconds > SLOW:
        return Verdict("failure", f"took {seconds:.1f} s")
    try:
        expected = reader.oracle(files)
    except Unsure:
        return Verdict("unsure")
    except Refuse as why:
        return Verdict("failure", f"accepted, but must be refused ({why}): {found}")
    for name, value in expected.items():
        if not _equal(found.get(name), value):
            return Verdict("failure", f"{name}: {found.get(name)} instead of {value}")
    return Verdict("value")


def _judge_error(text: str, files: Files) -> Verdict:
    if "\n" in text:
        return Verdict("failure", f"an error of several lines: {text!r}")
    if not any(name in text for name in files) and not text.startswith("weather files of kind"):
        return Verdict("failure", f"an error that names no file: {text!r}")
    return Verdict("error")


def _equal(found: Any, expected: Any) -> bool:
    """Compare values; numbers to 13 digits, NaN with NaN."""
    if isinstance(expected, np.ndarray | list) and isinstance(found, np.ndarray):
        found, expected = np.asarray(found), np.asarray(expected)
        if found.shape != expected.shape:
            return False
        if expected.dtype.kind in "fiub" and found.dtype.kind in "fiub":
            return bool(np.allclose(found, expected, rtol=1e-13, atol=0.0, equal_nan=True))
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return list(found) == list(expected) and all(_equal(found[key], expected[key]) for key in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(_equal, found, expected))
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-13) or (math.isnan(found) and math.isnan(expected))
    return type(found) is type(expected) and bool(found == expected)


def case(reader: Reader, name: str, seed: int, number: int) -> Files:
    """Return the damaged files of one case; the same arguments give the same files.

    :param reader: of the files
    :param name: the reader's
    :param seed: of the run
    :param number: of the case
    """
    rng = random.Random(f"{seed}/{name}/{number}")
    victim = rng.choice(list(reader.files))
    data = reader.files[victim]
    if reader.packed:
        for _ in range(rng.choice((1, 1, 2))):
            data = rng.choice((flip_bit, set_byte, truncate))(rng, data)
    else:
        data = mutate(rng, data)
    return {**reader.files, victim: data}


def check_intact(reader: Reader, name: str, folder: Path) -> None:
    """Raise an ``AssertionError`` unless intact files, and such with changes that must not matter, are read.

    :param reader: to check
    :param name: its name
    :param folder: is overwritten
    """
    judge(reader, reader.files, folder)  # imports what it needs
    verdict = judge(reader, reader.files, folder)
    assert verdict.outcome == "value", f"{name}: intact files: {verdict}"
    if reader.packed or name in ("yaml", "manifest"):
        return
    for number in range(20):
        rng = random.Random(number)
        files = {file: neutral(rng, data) for file, data in reader.files.items()}
        verdict = judge(reader, files, folder)
        assert verdict.outcome == "value", f"{name}: {files}: {verdict}"


def fuzz(name: str, count: int, seed: int, out: Path | None = None) -> dict[str, int]:
    """Judge a number of damaged files.

    :param name: of a reader in :func:`readers`
    :param count: of cases
    :param seed: of the run
    :param out: a folder for failures; ``None`` keeps none
    :return: how often each outcome was seen
    """
    reader = readers()[name]
    outcomes = collections.Counter[str](error=0, value=0, unsure=0, failure=0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        check_intact(reader, name, folder)
        for number in range(count):
            files = case(reader, name, seed, number)
            verdict = judge(reader, files, folder)
            outcomes[verdict.outcome] += 1
            if verdict.outcome == "failure" and out is not None:
                _keep(out / f"{name}-{seed}-{number}", files, verdict)
    return dict(outcomes)


def _keep(folder: Path, files: Files, verdict: Verdict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "why.txt").write_text(verdict.why + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz the readers that are named, print a line for each, and return 1 if there was a failure."""
    parser = argparse.ArgumentParser(prog="fuzz_readers", description=str(__doc__).splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"default: {', '.join(readers())}")
    parser.add_argument("--count", type=int, default=10_000, help="files a reader (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the damage (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="where failures go")
    options = parser.parse_args(argv)
    unknown = set(options.readers) - set(readers())
    if unknown:
        parser.error(f"unknown reader {sorted(unknown)[0]!r} (known: {', '.join(readers())})")
    failed = 0
    for name in options.readers or readers():
        began = time.perf_counter()
        outcomes = fuzz(name, options.count, options.seed, options.out)
        failed += outcomes["failure"]
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
        print(f"{name}: {told} ({time.perf_counter() - began:.0f} s)", flush=True)
    if failed:
        print(f"{failed} failures are in {options.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
