"""Schedulers for datacenters on renewable power and a changing grid, learned with Stable-Baselines3.

The algorithms are imported when they are first asked for, so that commands that need no torch start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sb3_greendc.core.discounting import DiscountByTime
    from sb3_greendc.core.masking import masked_log_softmax
    from sb3_greendc.core.vec_env import make_vec_env
    from sb3_greendc.crr import CRR
    from sb3_greendc.datasets import OfflineDataset
    from sb3_greendc.discrete_sac import DiscreteSAC
    from sb3_greendc.evaluation.collection import collect
    from sb3_greendc.evaluation.hub import load_from_hub, package_to_hub, push_to_hub
    from sb3_greendc.evaluation.masked_evaluation import evaluate_policy
    from sb3_greendc.evaluation.paired import evaluate
    from sb3_greendc.pid_ppo import PIDController, PIDLagrangianPPO
    from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO
    from sb3_greendc.runs.onnx_export import export_onnx
    from sb3_greendc.runs.pretrained import load_pretrained

__all__ = [
    "CRR",
    "DiscountByTime",
    "DiscreteSAC",
    "OfflineDataset",
    "PIDController",
    "PIDLagrangianPPO",
    "RecurrentPIDLagrangianPPO",
    "collect",
    "evaluate",
    "evaluate_policy",
    "export_onnx",
    "load_from_hub",
    "load_pretrained",
    "make_vec_env",
    "masked_log_softmax",
    "package_to_hub",
    "push_to_hub",
]

_MODULES = {
    "CRR": "sb3_greendc.crr",
    "DiscountByTime": "sb3_greendc.core.discounting",
    "DiscreteSAC": "sb3_greendc.discrete_sac",
    "OfflineDataset": "sb3_greendc.datasets",
    "PIDController": "sb3_greendc.pid_ppo",
    "PIDLagrangianPPO": "sb3_greendc.pid_ppo",
    "RecurrentPIDLagrangianPPO": "sb3_greendc.recurrent_pid_ppo",
    "collect": "sb3_greendc.evaluation.collection",
    "evaluate": "sb3_greendc.evaluation.paired",
    "evaluate_policy": "sb3_greendc.evaluation.masked_evaluation",
    "export_onnx": "sb3_greendc.runs.onnx_export",
    "load_from_hub": "sb3_greendc.evaluation.hub",
    "load_pretrained": "sb3_greendc.runs.pretrained",
    "make_vec_env": "sb3_greendc.core.vec_env",
    "masked_log_softmax": "sb3_greendc.core.masking",
    "package_to_hub": "sb3_greendc.evaluation.hub",
    "push_to_hub": "sb3_greendc.evaluation.hub",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
