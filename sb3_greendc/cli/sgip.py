"""California's SGIP signal, asked for months of emissions in the form of the 5-minute archive.

The API (https://sgipsignal.com/api-documentation) needs a free account. A call for the history answers
for at most 31 days, a call for forecasts for at most one; a token is good for about half an hour.
"""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from greendc.traces.moer_archive import ARCHIVE_COLUMNS
from greendc.traces.trace_files import TraceError
from sb3_greendc.cli.network import Get

HOST = "sgipsignal.com"
HISTORY_VERSION = "1.0"
FORECAST_VERSION = "1.0-1.0.0"

_STEP = timedelta(minutes=5)
_DAY = timedelta(days=1)
_LEADS = len(ARCHIVE_COLUMNS) - 1


class SgipClient:
    """Signs in with the user's own account, and again when the token has run out.

    :param username: of the account
    :param password: of the account
    :param get: what asks the network
    """

    def __init__(self, username: str, password: str, get: Get) -> None:
        self._basic = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._get = get
        self._token = ""

    def archive_month(self, region: str, month: str) -> bytes:
        """Return a month, and a day on each side, as the text of an archive file.

        :param region: the signal's own name (``"SGIP_CAISO_PGE"``)
        :param month: ``"YYYY-MM"``, by UTC
        :raises TraceError: if the service refuses, or has no value for one of the stamps
        """
        try:
            return self._archive_month(region, month)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise TraceError(f"{HOST} gave an answer that is not understood ({error!r})") from None

    def _archive_month(self, region: str, month: str) -> bytes:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=timezone.utc)
        start = first - _DAY
        stop = (first + 31 * _DAY).replace(day=1) + _DAY
        observed = self._history(region, start, stop)
        issued = self._forecasts(region, start, stop)
        lines = [",".join(("time", *ARCHIVE_COLUMNS))]
        while start < stop:
            if start not in observed or len(issued.get(start, ())) != _LEADS:
                raise TraceError(f"{HOST} has no complete row of {region} for {start:%Y-%m-%d %H:%M} UTC")
            lines.append(",".join((str(start), repr(observed[start]), *map(repr, issued[start]))))
            start += _STEP
        return ("\n".join(lines) + "\n").encode()

    def _history(self, region: str, start: datetime, stop: datetime) -> dict[datetime, float]:
        """Return the observed emissions rate of the stamps in ``[start, stop)``."""
        rows = self._rows("sgipmoer", region, start, stop, 31 * _DAY, HISTORY_VERSION)
        return {_stamp(row["point_time"]): float(row["moer"]) for row in rows}

    def _forecasts(self, region: str, start: datetime, stop: datetime) -> dict[datetime, list[float]]:
        """Return the 36 values of the forecasts issued in ``[start, stop)``."""
        rows = self._rows("sgipforecast", region, start, stop, _DAY, FORECAST_VERSION)
        return {
            _stamp(row["generated_at"]): [float(point["value"]) for point in row["forecast"][:_LEADS]]
            for row in rows
        }

    def _rows(
        self, path: str, region: str, start: datetime, stop: datetime, longest: timedelta, version: str
    ) -> Iterator[dict[str, Any]]:
        """Ask in calls no longer than allowed; ``endtime`` is inclusive."""
        while start < stop:
            end = min(start + longest, stop)
            query = {
                "ba": region,
                "starttime": start.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "endtime": (end - _STEP).strftime("%Y-%m-%dT%H:%M:%S%z"),
                "version": version,
            }
            yield from self._ask(f"https://{HOST}/{path}/?{urllib.parse.urlencode(query)}")
            start = end

    def _ask(self, url: str) -> Any:
        status, body = 401, b""
        if self._token:
            status, body = self._get(url, {"Authorization": f"Bearer {self._token}"})
        if status == 401:
            self._sign_in()
            status, body = self._get(url, {"Authorization": f"Bearer {self._token}"})
        if status != 200:
            raise TraceError(f"{HOST} answered with status {status} to {url}")
        return json.loads(body)

    def _sign_in(self) -> None:
        status, body = self._get(f"https://{HOST}/login/", {"Authorization": f"Basic {self._basic}"})
        if status != 200:
            raise TraceError(f"{HOST} refused the user name and password (status {status})")
        self._token = json.loads(body)["token"]


def _stamp(text: str) -> datetime:
    """Read an ISO 8601 stamp; ``Z`` at its end is read only since Python 3.11."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
