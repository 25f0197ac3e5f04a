"""Search for hyperparameters: spaces, studies that survive their workers, and what is made of the result."""

from sb3_greendc.tuning.asking import make_problem
from sb3_greendc.tuning.conversion import to_settings
from sb3_greendc.tuning.problem import Problem
from sb3_greendc.tuning.search import run_search
from sb3_greendc.tuning.spaces import SPACES, search_space
from sb3_greendc.tuning.study import Search, create_or_load, load
from sb3_greendc.tuning.worker import Order, Outcome

__all__ = [
    "SPACES",
    "Order",
    "Outcome",
    "Problem",
    "Search",
    "create_or_load",
    "load",
    "make_problem",
    "run_search",
    "search_space",
    "to_settings",
]
