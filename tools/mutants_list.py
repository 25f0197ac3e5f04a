"""The mutations of ``make mutants``: what is changed, and which tests ought to notice.

Each is a defect that was made once, or could be: a mask of the wrong state, an end taken for a time limit, a
month in two splits, a state left out of a checkpoint. A text that is edited in the source is edited here
too; ``tests/tools/test_mutants.py`` says which one is not found any more.
"""

from __future__ import annotations

from mutants import Mutation
from mutants_cluster import CLUSTER
from mutants_off_policy import OFF_POLICY
from mutants_on_policy import ON_POLICY
from mutants_power import POWER
from mutants_runs import RUNS
from mutants_simulators import SIMULATORS

MUTATIONS: tuple[Mutation, ...] = (*OFF_POLICY, *ON_POLICY, *RUNS, *SIMULATORS, *CLUSTER, *POWER)
