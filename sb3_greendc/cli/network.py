"""Answers of the network, for the commands that fetch traces and forecasts."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException

from greendc.traces.trace_files import TraceError

Get = Callable[[str, Mapping[str, str]], tuple[int, bytes]]
"""Answers a GET request, a URL and headers, with a status and a body."""


def http_get(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Ask the network.

    :raises TraceError: in one line, if the host cannot be reached
    """
    request = urllib.request.Request(url, headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (OSError, HTTPException) as error:
        reason, host = getattr(error, "reason", error), urllib.parse.urlsplit(url).hostname
        raise TraceError(f"{host} cannot be reached ({reason}): this needs a network") from None
