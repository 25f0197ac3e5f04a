"""``fetch_traces jobs``: a job log of the Parallel Workloads Archive."""

from __future__ import annotations

import argparse
from http import HTTPStatus
from pathlib import Path

from greendc.traces.swf import JobLog, parse_swf
from greendc.traces.trace_files import TraceError, unpack
from sb3_greendc.cli.network import http_get
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.secrets import without_secrets

INTREPID = "https://www.cs.huji.ac.il/labs/parallel/workload/l_anl_int/ANL-Intrepid-2009-1.swf.gz"
"""The log of ANL's Blue Gene/P, 68,936 jobs of 2009, on which RARE's HPC workload is based."""

TERMS = (
    "Logs of the archive are free to use: acknowledge who provided the log (named in its header), and cite "
    "Feitelson, Tsafrir and Krakov, Journal of Parallel and Distributed Computing 74 (2014) 2967-2982."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Print the address of a job log in the Parallel Workloads Archive, download it and check it. "
        f"The default is the log of ANL Intrepid. {TERMS}"
    )
    parser.add_argument("--url", default=INTREPID, help="another log (.swf or .swf.gz)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where it goes (default: its own name, here)"
    )


def run(args: argparse.Namespace) -> None:
    """Download the log; nothing is written unless it is whole and can be read.

    :raises TraceError: in one line, without network, or if the answer is not a job log
    """
    print(without_secrets(args.url))
    out = args.out or Path(args.url.rpartition("/")[2])
    if out.name.endswith(".gz") != args.url.endswith(".gz"):
        raise TraceError(f"--out {out}: must end in .gz if and only if the log does")
    data = download(args.url)
    log = parse_swf(unpack(data, args.url), args.url)
    with atomic_write(out) as file:
        file.write(data)
    print(f"{out}: {describe(log)}\n{TERMS}")


def download(url: str) -> bytes:
    """Return what lies at an address.

    :raises TraceError: in one line, if it cannot be had
    """
    if not url.startswith(("https://", "http://")):
        raise TraceError(f"--url {url}: must be an http or https address")
    status, body = http_get(url, {})
    if status != HTTPStatus.OK:
        raise TraceError(f"{url}: the server answered {status}")
    return body


def describe(log: JobLog) -> str:
    """Return one line about a job log, odd lines included."""
    odd = ", ".join(f"{kind} {count}" for kind, count in log.counts.items() if count) or "none"
    return f"{len(log)} jobs on {log.machine_processors} processors; odd lines: {odd}"
