"""Critic-regularized regression: learning from data of other schedulers."""

from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.crr.callbacks import OfflineEvalCallback
from sb3_greendc.crr.crr import CRR
from sb3_greendc.crr.policies import CnnPolicy, CRRPolicy, MlpPolicy, MultiInputPolicy

__all__ = [
    "CRR",
    "BoxCRRPolicy",
    "CRRPolicy",
    "CnnPolicy",
    "MlpPolicy",
    "MultiInputPolicy",
    "OfflineEvalCallback",
]
