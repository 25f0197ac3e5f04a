"""Emissions, jobs and power for the simulators: from files that ship, files you have, or generators."""

from greendc.traces.jobs import JobTrace as JobTrace
from greendc.traces.moer import MoerSeries as MoerSeries
from greendc.traces.moer import load_moer as load_moer
from greendc.traces.moer_archive import hourly_moer as hourly_moer
from greendc.traces.moer_archive import read_moer_archive as read_moer_archive
from greendc.traces.power import CarbonTrace as CarbonTrace
from greendc.traces.power import PowerTrace as PowerTrace
from greendc.traces.power import read_carbon as read_carbon
from greendc.traces.power import read_power as read_power
from greendc.traces.swf import JobLog as JobLog
from greendc.traces.swf import read_swf as read_swf
from greendc.traces.trace_files import TraceError as TraceError
from greendc.traces.trace_files import UnclearTraceError as UnclearTraceError
