"""Orders of the waiting jobs: the lowest score is first, equal scores in order of arrival."""

from __future__ import annotations

RULES = (
    "fcfs",
    "sjf",
    "smallest",
    "saf",
    "wspt",
    "wfp3",
    "unicep",
    "f1",
    "f2",
    "f3",
    "f4",
    "wfp3_printed",
    "unicep_printed",
    "evolved",
)
"""With r the requested (or expected) seconds, n the processors, s the submit time and w the wait in seconds:

- ``fcfs``: s; ``sjf``: r; ``smallest``: n; ``saf``: r n
- ``wspt``: r max(r, 10) n, the least work in the least bounded slowdown first
- ``wfp3``: -(w / r)^3 n; ``unicep``: -w / (r log2 n), with 1e-15 added to w and to n: jobs of one processor
  that have waited go first (Tang et al., IPDPS 2009)
- ``f1`` to ``f4``: log10(r) n + 870 log10(s); sqrt(r) n + 25,600 log10(s); r n + 6,860,000 log10(s);
  r sqrt(n) + 530,000 log10(s) (Carastan-Santos and de Camargo, SC 2017), s at least 1
- ``wfp3_printed``, ``unicep_printed``: as in the published tables of RLScheduler (SC 2020), where w is
  -1 - s by mistake
- ``evolved``: what a small network makes of r, n, w, the time until n processors are free, and the queue;
  see :mod:`greendc.cluster.evolved`
"""

(
    FCFS,
    SJF,
    SMALLEST,
    SAF,
    WSPT,
    WFP3,
    UNICEP,
    F1,
    F2,
    F3,
    F4,
    WFP3_PRINTED,
    UNICEP_PRINTED,
    EVOLVED,
) = range(len(RULES))
