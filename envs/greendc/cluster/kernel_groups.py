# mypy: warn-return-any=False
"""Compiled run times to expect: what a user's jobs took so far, above all the latest ones and those alike.

A job belongs to up to three groups, each within the next: jobs of its user, with its request, with its
processors. The sums of a narrow group are mixed with what the wider one says, those of the widest with the
job's request.

After Tsafrir, Etsion and Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime
Estimates", IEEE TPDS 2007, who take the mean of a user's last two jobs.
"""

from __future__ import annotations

import math

from greendc.cluster.layout import NOBODY, SHORT_RUN, LogJob, Site
from greendc.compiled import internal

OLDER = 0.6
"""A job that is done counts as this part of the next one of its group."""
PRIOR = 1.0
"""What the wider group says counts as so many jobs."""
FAILING = 0.02
"""The share of jobs that end in seconds, whatever those of their group did."""
SPREAD = math.sqrt(3.0) / math.pi
"""The scale of a logistic variable of variance 1."""


@internal
def remember(site: Site, entry: LogJob) -> None:
    """Count a job that is done in its groups."""
    group = entry.group
    while group != NOBODY:
        known = site.groups[group]
        known.jobs = OLDER * known.jobs + 1.0
        known.runs = OLDER * known.runs + entry.run
        known.inverses = OLDER * known.inverses + 1.0 / max(entry.run, SHORT_RUN)
        group = site.wider[group]


@internal
def expected(site: Site, job: int) -> tuple[float, float]:
    """Return the run time to expect of a job, at most its request, and what to expect of one over it.

    A run time counts as at least ten seconds where something is divided by it.
    """
    entry = site.log[site.cluster.first + job]
    run, inverse, share, group = 0.0, 0.0, 1.0, entry.group
    while group != NOBODY:
        known = site.groups[group]
        run += share * known.runs / (known.jobs + PRIOR)
        inverse += share * known.inverses / (known.jobs + PRIOR)
        share *= PRIOR / (known.jobs + PRIOR)
        group = site.wider[group]
    run = min(run + share * entry.request, float(entry.request))
    inverse += share / max(entry.request, SHORT_RUN)
    if entry.group != NOBODY:
        inverse = (1.0 - FAILING) * inverse + FAILING / SHORT_RUN
    return run, inverse


@internal
def run_at(site: Site, job: int, share: float) -> int:
    """Return a run time that this share of jobs like a waiting one stay below.

    Its logarithm is spread like a logistic variable with the mean and the variance that give a lognormal one
    what is :func:`expected`.

    :param share: above 0 and below 1
    """
    request = site.log[site.cluster.first + job].request
    run, inverse = expected(site, job)
    run = max(run, 1.0)
    middle, spread = 0.5 * math.log(run / inverse), SPREAD * math.sqrt(max(math.log(run * inverse), 0.0))
    at = math.exp(middle + spread * math.log(share / (1.0 - share)))
    return min(max(int(at), 1), request)
