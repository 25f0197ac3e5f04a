"""What the papers print: every number, both ends of a range, where it is printed, rival and points.

RARE is Venkataswamy, Grigsby, Grimshaw and Qi, JSSPP 2022; SC20 is Venkataswamy and Grimshaw, MLCS workshop
2020; CoCoRL is Venkataswamy, "Job Scheduling in Datacenters using Constraint Controlled RL". What only a
curve shows has no number and is no claim here; sentences without a number are claims of the kind
``"statement"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from sb3_greendc.experiments import statements
from sb3_greendc.experiments.episodes import PAPER
from sb3_greendc.experiments.statements import Check
from sb3_greendc.experiments.tasks import LOG_SERIES, SYNTHETIC, without_form

BEST_OF_PAPER = "best of the papers'"
ANY = ""
"""A claim's rival when it is about a level, not about a margin."""

MARGIN, LEVEL, STATEMENT = "margin", "level", "statement"
VALUE, COMPLETION = "total_job_value", "completion_ratio"


@dataclass(frozen=True)
class Claim:
    """A printed number or range.

    :param source: paper and place where it is printed
    :param experiments: the experiments that repeat it
    :param low: lower end, in per cent; ``nan`` in statements
    :param high: upper end; the lower one again where one number is printed, infinite for "at least"
    :param rival: whom the paper's learner exceeds, as in :func:`~sb3_greendc.experiments.comparison.compare`
    :param kind: a margin over the rival, a level, or a sentence
    :param metric: what it is about
    :param series: beginning of the name of the series that it is about; empty for all
    :param points: the points that it is about; empty for all
    :param who: the policies that a level is about; empty for all
    :param says: in words: what the numbers leave out
    :param of_all: it is about all policies: the lowest counts, not the highest
    :param why_not: why ours cannot be compared with it, if so
    :param check: of a statement: whether it holds in our tables
    """

    source: str
    experiments: tuple[str, ...]
    low: float
    high: float
    rival: str = BEST_OF_PAPER
    kind: str = MARGIN
    metric: str = VALUE
    series: str = ""
    points: tuple[float | str, ...] = ()
    who: tuple[str, ...] = ()
    says: str = ""
    of_all: bool = False
    why_not: str = ""
    check: Check | None = field(default=None, compare=False)

    def covers(
        self, series: object, x: object, rival: str, metric: str = VALUE, policy: object = None
    ) -> bool:
        """Tell whether the claim is the one about a row of a comparison, or of a table of levels.

        Of heuristics, the form is no matter.
        """
        if self.who and without_form(str(policy)) not in self.who:
            return False
        here = str(series).startswith(self.series) and (not self.points or x in self.points)
        same = without_form(rival) == self.rival and metric == self.metric
        return here and same and self.kind != STATEMENT

    @property
    def of_heuristics(self) -> bool:
        """Whether it is about levels of the papers' heuristics, too."""
        return bool(set(self.who) & set(PAPER))

    @property
    def printed(self) -> str:
        """The range as tables write it."""
        if self.kind == STATEMENT:
            return self.says
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"

    def verdict(self, ours: float) -> str:
        """Return above, within or below what is printed, or why ours cannot be compared with it."""
        if self.why_not:
            return f"not comparable: {self.why_not}"
        # One number, not a range, is met by what rounds to it.
        spare = 0.5 if self.low == self.high else 0.0
        return "below" if ours < self.low - spare else "above" if ours > self.high + spare else "within"


def _statements(
    source: str, experiment: str, checks: Mapping[str, Check], why_not: str = ""
) -> tuple[Claim, ...]:
    """Return what a place of a paper says without a number, each sentence with a check of our tables."""
    return tuple(
        Claim(
            source,
            (experiment,),
            math.nan,
            math.nan,
            ANY,
            STATEMENT,
            says=says,
            why_not=why_not,
            check=check,
        )
        for says, check in checks.items()
    )


LOG = "another log"
"""The paper's log is ANL Intrepid's, which is not at hand."""
_FIG4, _FIG5, _FIG6 = ("rare-fig4",), ("rare-fig5",), ("rare-fig6",)
_FIG7, _FIG8 = ("rare-fig7",), ("rare-fig8",)
_SMALL, _LARGE, _FROM_50 = (10, 20, 50), (100, 300), (50, 100, 300)

RARE = (
    Claim(
        "RARE, Fig. 3a",
        ("rare-fig3",),
        60,
        math.inf,
        ANY,
        LEVEL,
        "hours_at_least",
        points=(240,),
        says="of the hours",
    ),
    Claim(
        "RARE, Fig. 3a",
        ("rare-fig3",),
        95,
        math.inf,
        ANY,
        LEVEL,
        "hours_at_least",
        points=(80,),
        says="of the hours",
    ),
    Claim("RARE, Fig. 4", _FIG4, 18, 25, points=_SMALL),
    Claim("RARE, Fig. 4", (*_FIG4, "rare-large"), 2, 20, points=_LARGE),
    *(
        Claim(
            "RARE, Fig. 4",
            _FIG4,
            2,
            6,
            rival,
            points=_FROM_50,
            says="50 units are printed twice: 18 to 25 over all heuristics",
        )
        for rival in ("qos", "sjf")
    ),
    Claim("RARE, Fig. 4", ("as-printed", "discrete-sac-curves"), 18, 25, points=(10,)),
    Claim("RARE, Fig. 5", _FIG5, 0, 0, "qos", points=(10,), says="equals QoS", why_not=LOG),
    *(
        Claim("RARE, Fig. 5", _FIG5, 5, 10, rival, points=(10,), why_not=LOG)
        for rival in ("sjf", "hvf", "fcfs")
    ),
    Claim("RARE, Fig. 5", _FIG5, 7, 14, points=(20, 30), why_not=LOG),
    Claim("RARE, Fig. 6", _FIG6, 9, 13, points=(10, 20)),
    Claim("RARE, Fig. 6", _FIG6, 8, 12, points=(50,)),
    Claim("RARE, Fig. 6", _FIG6, 1, 1, "qos", points=(300,)),
    *(Claim("RARE, Fig. 6", _FIG6, 5, 20, rival, points=(300,)) for rival in ("sjf", "hvf", "fcfs")),
    Claim("RARE, Fig. 7", _FIG7, 4, 4, "sjf", series=SYNTHETIC, points=(36,)),
    Claim("RARE, Fig. 7", _FIG7, 14, 14, "sjf", series=SYNTHETIC, points=(72,)),
    Claim("RARE, Fig. 7", _FIG7, 6, 6, "sjf", series=LOG_SERIES, points=(36,), why_not=LOG),
    Claim("RARE, Fig. 7", _FIG7, 10, 10, "sjf", series=LOG_SERIES, points=(72,), why_not=LOG),
    *_statements(
        "RARE, Fig. 7",
        "rare-fig7",
        {
            "the margin over SJF grows with the horizon": statements.growing_margin("sjf", SYNTHETIC),
        },
    ),
    *_statements(
        "RARE, Fig. 7",
        "rare-fig7",
        {"the margin over SJF grows with the horizon (log)": statements.growing_margin("sjf", LOG_SERIES)},
        why_not=LOG,
    ),
    Claim("RARE, Fig. 8", _FIG8, 18, 18, "sjf", series=SYNTHETIC, points=(15,)),
    *_statements(
        "RARE, Fig. 8",
        "rare-fig8",
        {"the margin over SJF is the greatest with 15": statements.greatest_margin("sjf", SYNTHETIC, 15)},
    ),
    Claim("RARE, Fig. 8", _FIG8, 4, 7, "sjf", series=SYNTHETIC, points=(25, 35)),
    Claim("RARE, Fig. 8", _FIG8, 10, 10, "sjf", series=LOG_SERIES, points=(5,), why_not=LOG),
    Claim("RARE, Fig. 8", _FIG8, 7, 7, "sjf", series=LOG_SERIES, points=(15, 25, 35), why_not=LOG),
)

AGREEMENT = {"sjf": 98.0, "qos": 71.0, "hvf": 75.0, "fcfs": 80.0}
OFFLINE_GAIN = {"sjf": 2.0, "qos": 5.0, "hvf": 19.0, "fcfs": 7.0}
MIXED_AGREEMENT = {"sjf": 64.0, "qos": 7.0, "hvf": 31.0, "fcfs": 16.0}

RARE_OFFLINE = (
    *(
        Claim(
            "RARE, Table 1",
            ("rare-table1",),
            share,
            share,
            ANY,
            LEVEL,
            "agreement",
            points=(teacher,),
            who=("BC",),
            says="clone agrees",
        )
        for teacher, share in AGREEMENT.items()
    ),
    *(
        Claim(
            "RARE, Table 1", ("rare-table1",), gain, gain, "BC", series=teacher, says="offline over its clone"
        )
        for teacher, gain in OFFLINE_GAIN.items()
    ),
    *(
        Claim(
            "RARE, mixed data",
            ("rare-mixed",),
            share,
            share,
            ANY,
            LEVEL,
            "agreement",
            points=(teacher,),
            who=("CRR", "CRR as printed"),
            says="CRR agrees",
        )
        for teacher, share in MIXED_AGREEMENT.items()
    ),
)

_SC20_STEPS = 2_500_000
_SC20_2, _SC20_6, _AS_PRINTED = ("sc20-fig2",), ("sc20-fig6",), ("as-printed",)

SC20 = (
    *_statements(
        "SC20, Fig. 2",
        "sc20-fig2",
        {
            "reward rises with arrivals": statements.rises_with_arrivals("accrued_reward", _SC20_STEPS),
            "reward is near 0 up to 30,000 steps": statements.near_zero_until(
                "accrued_reward", 30_000, _SC20_STEPS
            ),
            "reward has converged after 50,000 steps": statements.converged_after(
                "accrued_reward", 50_000, _SC20_STEPS
            ),
        },
    ),
    *_statements(
        "SC20, Fig. 3",
        "sc20-fig3",
        {
            "slowdown rises with arrivals": statements.rises_with_arrivals("mean_slowdown", _SC20_STEPS),
            "slowdown has converged after 70,000 steps": statements.converged_after(
                "mean_slowdown", 70_000, _SC20_STEPS
            ),
        },
    ),
    Claim(
        "SC20, Fig. 4",
        ("sc20-fig4",),
        60,
        60,
        ANY,
        LEVEL,
        "reward_share",
        says="reward at 50 % power over that at 90 %",
    ),
    *_statements(
        "SC20, Fig. 4",
        "sc20-fig4",
        {"reward is below 0 at first": statements.starts_below_zero("accrued_reward")},
    ),
    *_statements(
        "SC20, Fig. 5",
        "sc20-fig5",
        {
            "slowdown at 90 % power is close to that at full power": statements.close_ends(
                "mean_slowdown", "90 % power", "full power", _SC20_STEPS
            )
        },
    ),
    Claim("SC20, Fig. 6", _SC20_6, 38, 70, "hvf", points=(0.6, 0.7, 0.8, 0.9, 1.0)),
    Claim("SC20, Fig. 6", _AS_PRINTED, 38, 70, "hvf", points=(0.6,)),
    *_statements(
        "SC20, Fig. 6",
        "sc20-fig6",
        {
            "below 50 % arrivals all are alike, but at 40 % HVF is poor": statements.alike_but_for(
                "hvf", at=0.4, below=0.5
            )
        },
    ),
)

_BEST_AT_80 = statements.best_side_by_side(best_at=0.8, level_at=1.0, rival="qos")
_COCORL_5, _COCORL_6, _COCORL_9 = ("cocorl-fig5",), ("cocorl-fig6",), ("cocorl-fig9",)
_RATES_5 = ((20, 28, (0.2,)), (16, 20, (0.4,)), (12, 18, (0.6,)), (12, 14, (0.8,)), (1, 6, (1.0, 1.2)))
_RATES_9 = ((11, 23, (0.2,)), (16, 22, (0.4,)), (10, 18, (0.6,)), (6, 12, (0.8,)), (5, 10, (1.0, 1.2)))

COCORL = (
    *(Claim("CoCoRL, Fig. 5", _COCORL_5, low, high, points=points) for low, high, points in _RATES_5),
    Claim("CoCoRL, Fig. 5", _AS_PRINTED, 1, 6, points=(1.0,)),
    Claim(
        "CoCoRL, Fig. 5",
        _COCORL_5,
        12,
        14,
        points=(0.6,),
        says="60 % is printed twice: 12 to 18 and 12 to 14",
    ),
    Claim(
        "CoCoRL, Fig. 6",
        _COCORL_6,
        93,
        99,
        ANY,
        LEVEL,
        COMPLETION,
        points=(0.2, 0.4, 0.6),
        who=("sjf", "qos", "hvf", "fcfs", "CoCoRL as printed"),
        says="all policies",
        of_all=True,
    ),
    Claim(
        "CoCoRL, Fig. 6",
        _COCORL_6,
        97,
        97,
        ANY,
        LEVEL,
        COMPLETION,
        points=(0.6, 0.8, 1.0),
        who=("qos", "CoCoRL as printed"),
        says="about 97 %: CoCoRL and QoS",
    ),
    *(
        Claim("CoCoRL, Fig. 6", _COCORL_6, 5, 22, rival, metric=COMPLETION, points=(0.6, 0.8, 1.0))
        for rival in ("sjf", "hvf", "fcfs")
    ),
    *_statements(
        "CoCoRL, Fig. 6",
        "cocorl-fig6",
        {
            "QoS completes 5 to 22 % more jobs than the others at 60 to 100 %": statements.completes_more(
                "qos", ("sjf", "hvf", "fcfs"), points=(0.6, 0.8, 1.0), low=5, high=22
            ),
            "completion drops above 100 %": statements.drops_above(COMPLETION, 1.0),
        },
    ),
    *_statements(
        "CoCoRL, Fig. 7",
        "cocorl-fig7",
        {
            "utilization is low at 20 to 60 %": statements.low_up_to("utilization", 0.6),
            "utilization is below 100 % even at 120 %": statements.below_one("utilization", 1.2),
            "CoCoRL's utilization is significantly above the heuristics'": statements.margins(
                "sjf", "qos", "edf", "hvf", "fcfs"
            ),
        },
    ),
    *_statements(
        "CoCoRL, Fig. 8",
        "cocorl-fig8",
        {"best in value, completion and utilization at 80 %, level with or above QoS at 100 %": _BEST_AT_80},
    ),
    *(
        Claim("CoCoRL, Fig. 9", _COCORL_9, low, high, points=points, why_not=LOG)
        for low, high, points in _RATES_9
    ),
    *_statements(
        "CoCoRL, Fig. 10",
        "cocorl-fig10",
        {
            "at 20 % CoCoRL, SJF and QoS cost alike, FCFS and HVF more": statements.cheap_alike(
                ("sjf", "qos"), ("fcfs", "hvf"), at=0.2
            ),
            "CoCoRL's and SJF's cost stays meagre as arrivals rise": statements.cheapest_of_all(
                "sjf", ("qos", "hvf", "fcfs"), points=(1.0, 1.2)
            ),
            "CoCoRL's cost is significantly lower at 40 to 80 %": statements.margins(
                "sjf", "qos", "hvf", "fcfs", points=(0.4, 0.6, 0.8), costs=True
            ),
        },
        why_not=LOG,
    ),
    *_statements(
        "CoCoRL, Fig. 11",
        "cocorl-fig11",
        {
            "Ki 1 costs much less than Ki 0.01 at 100 to 120 %": statements.cheaper_than(
                "CoCoRL as printed, Ki 0.01", points=(1.0, 1.2)
            )
        },
        why_not=LOG,
    ),
    *_statements(
        "CoCoRL, Fig. 12",
        "cocorl-fig12",
        {
            "the lower limit (2000 against 7000) has the lower cost": statements.cheaper_than(
                "CoCoRL as printed, limit 7000"
            )
        },
        why_not=LOG,
    ),
)

CLAIMS = (*RARE, *RARE_OFFLINE, *SC20, *COCORL)
"""All of them. SustainGym's page prints no result."""


def claims_of(experiment: str) -> tuple[Claim, ...]:
    """Return the claims that an experiment repeats."""
    return tuple(claim for claim in CLAIMS if experiment in claim.experiments)


PRINTED_COLUMNS = ("printed_low", "printed_high", "verdict", "source")


def beside(experiment: str, table: pd.DataFrame, value: str = "margin_percent") -> pd.DataFrame:
    """Return a table of margins or levels with what is printed: both ends, the verdict and the place.

    :param experiment: its name
    :param table: of :func:`~sb3_greendc.experiments.comparison.compare`, or any table with a column
        ``series``
    :param value: the column of our numbers
    """
    found = [_claim_of(claims_of(experiment), row) for _, row in table.iterrows()]
    ours = table[value]
    return table.drop(columns=["printed_percent", *PRINTED_COLUMNS], errors="ignore").assign(
        printed_low=[claim.low if claim else math.nan for claim in found],
        printed_high=[claim.high if claim else math.nan for claim in found],
        verdict=[claim.verdict(value) if claim else "" for claim, value in zip(found, ours, strict=True)],
        source=[claim.source if claim else "" for claim in found],
    )


def _claim_of(claims: Sequence[Claim], row: pd.Series) -> Claim | None:
    """Return the first claim about a row of a comparison; a row without a metric is about value."""
    if row.get("kind") == "control":
        return None
    key = (
        row["series"],
        row.get("x", ""),
        row.get("against", ANY),
        row.get("metric", VALUE),
        row.get("policy"),
    )
    return next((claim for claim in claims if claim.covers(*key)), None)
