"""The orders of the waiting jobs in plain Python, for a :class:`cluster_reference.Reference`."""

from __future__ import annotations

import math


def score(cluster, job, rule, predicted):
    r = cluster.expected_run(job) if predicted else float(job.request)
    n, s = float(job.processors), float(job.submit)
    wait = float(cluster.now - job.submit)
    printed = -1.0 - s
    late = math.log10(max(s, 1.0))
    return {
        "fcfs": lambda: s,
        "sjf": lambda: r,
        "smallest": lambda: n,
        "saf": lambda: r * n,
        "wspt": lambda: r / cluster.expected_inverse(job) * n if predicted else cluster.weight(job),
        "wfp3": lambda: -((wait / r) * (wait / r) * (wait / r)) * n,
        "unicep": lambda: -(wait + 1e-15) / (math.log2(n + 1e-15) * r),
        "f1": lambda: math.log10(r) * n + 870.0 * late,
        "f2": lambda: math.sqrt(r) * n + 25_600.0 * late,
        "f3": lambda: r * n + 6_860_000.0 * late,
        "f4": lambda: r * math.sqrt(n) + 530_000.0 * late,
        "wfp3_printed": lambda: -((printed / r) * (printed / r) * (printed / r)) * n,
        "unicep_printed": lambda: -(printed + 1e-15) / (math.log2(n + 1e-15) * r),
        "evolved": lambda: evolved(cluster, job, r),
    }[rule]()


def evolved(cluster, job, run):
    """The network, from its description: each unit sees what is known of the job and of the queue."""
    total = cluster.processors
    first = next((t for t in sorted(cluster.plan_times()) if cluster.planned_free(t) >= job.processors), None)
    delay = (max(cluster.plan_times()) if first is None else first) - cluster.now
    seen = [math.log(max(run, 10.0)) / 10.0, math.log(job.processors / float(total)) / 5.0]
    seen += [math.log1p(float(cluster.now - job.submit)) / 10.0, math.log1p(float(delay)) / 10.0]
    work = 0.0
    for other in cluster.queue:
        work += float(other.request) * other.processors
    queue = [max(cluster.free, 0) / float(total)]
    queue += [math.log1p(len(cluster.queue)) / 5.0, math.log1p(work / float(total)) / 10.0]
    weights = [float(weight) for weight in cluster.weights]
    direct, units = weights[:4], [weights[k : k + 9] for k in range(4, len(weights), 9)]
    score = sum(w * x for w, x in zip(direct, seen, strict=True))
    for bias, *into, out in units:
        inner = bias
        for w, x in zip(into, seen + queue, strict=True):
            inner += w * x
        score += out * (inner / (1.0 + abs(inner)))
    return score
