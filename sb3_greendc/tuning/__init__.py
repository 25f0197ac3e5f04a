"""Search for hyperparameters: spaces, studies that survive their workers, and what is made of the result."""

from sb3_greendc.tuning.asking import make_objective
from sb3_greendc.tuning.conversion import to_settings
from sb3_greendc.tuning.objective import Objective
from sb3_greendc.tuning.search import run_search
from sb3_greendc.tuning.spaces import SPACES, search_space
from sb3_greendc.tuning.study import Search, create_or_load, load
from sb3_greendc.tuning.worker import Order, Outcome

__all__ = [
    "SPACES",
    "Objective",
    "Order",
    "Outcome",
    "Search",
    "create_or_load",
    "load",
    "make_objective",
    "run_search",
    "search_space",
    "to_settings",
]
