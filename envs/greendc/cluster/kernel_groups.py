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
from greendc.compiled import inlined, internal

OLDER = 0.6
"""What a job counts for each one of its group that was done after it."""
PRIOR = 1.0
"""Jobs that what the wider group says counts for."""
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


@inlined
def expected_run(site: Site, job: int) -> float:
    """Return the run time to expect of a job, at most its request."""
    entry = site.log[site.cluster.first + job]
    expected, share, group = 0.0, 1.0, entry.group
    while group != NOBODY:
        known = site.groups[group]
        expected += share * known.runs / (known.jobs + PRIOR)
        share *= PRIOR / (known.jobs + PRIOR)
        group = site.wider[group]
    return min(expected + share * entry.request, float(entry.request))


@inlined
def expected_inverse(site: Site, job: int) -> float:
    """Return what to expect of one over the run time (at least ten seconds), as :func:`expected_run`."""
    entry = site.log[site.cluster.first + job]
    expected, share, group = 0.0, 1.0, entry.group
    while group != NOBODY:
        known = site.groups[group]
        expected += share * known.inverses / (known.jobs + PRIOR)
        share *= PRIOR / (known.jobs + PRIOR)
        group = site.wider[group]
    expected += share / max(entry.request, SHORT_RUN)
    if entry.group == NOBODY:
        return expected
    return (1.0 - FAILING) * expected + FAILING / SHORT_RUN


@inlined
def run_at(site: Site, job: int, share: float) -> int:
    """Return a run time that this share of jobs like a waiting one stay below.

    Its logarithm is spread like a logistic variable with the mean and the variance that make a lognormal one
    have :func:`expected_run` and :func:`expected_inverse`.

    :param share: above 0 and below 1
    """
    request = site.log[site.cluster.first + job].request
    run, inverse = max(expected_run(site, job), 1.0), expected_inverse(site, job)
    middle, spread = 0.5 * math.log(run / inverse), SPREAD * math.sqrt(max(math.log(run * inverse), 0.0))
    at = math.exp(middle + spread * math.log(share / (1.0 - share)))
    return min(max(int(at), 1), request)
