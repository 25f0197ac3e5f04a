"""What tests of a site of one's own share."""

import argparse

import pandas as pd

from greendc.traces.swf import read_swf
from sb3_greendc.experiments import my_site


def prepared(inputs, folder, *more):
    parser = argparse.ArgumentParser()
    my_site.add_options(parser)
    return my_site.prepare_site(parser.parse_args([*inputs, *more]), folder)


def by_subject(site):
    return {one.about: one for one in site.assumptions}


def kept_qos(site):
    return read_swf(site.scenario.env_kwargs["workload"]).qos


def export(jobs):
    """Return an export of jobs of one hour, every 40 minutes."""
    lines = ["JobID|Submit|Start|End|Elapsed|Timelimit|NCPUS|State|Priority"]
    for k, job in enumerate(jobs):
        at = pd.Timestamp("2024-03-01 10:00") + k * pd.Timedelta("40min")
        start, end = at + pd.Timedelta("5min"), at + pd.Timedelta("65min")
        times = "|".join(f"{time:%Y-%m-%dT%H:%M:%S}" for time in (at, start, end))
        lines.append(f"{job}|{times}|01:00:00|02:00:00|{1 + k % 4}|COMPLETED|{100 - k}")
    return "\n".join(lines) + "\n"
