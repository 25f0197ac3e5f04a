"""Emissions, jobs and power for the simulators: from files that ship, files you have, or generators."""

from greendc.traces.jobs import JobTrace as JobTrace
from greendc.traces.moer import MoerSeries as MoerSeries
from greendc.traces.moer import load_moer as load_moer
from greendc.traces.moer_archive import hourly_moer as hourly_moer
from greendc.traces.moer_archive import read_moer_archive as read_moer_archive
from greendc.traces.tables import TraceError as TraceError
