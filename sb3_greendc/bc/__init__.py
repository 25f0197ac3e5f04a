"""Learning from policies in a data set: what they did (cloning), or how they value actions (distillation)."""

from sb3_greendc.bc.cloning import Clone, Cloning, behavioral_clone
from sb3_greendc.bc.distill import Distillation, distill, resize
from sb3_greendc.bc.scores import AgreementScores, agreement_scores, tie_sets

__all__ = [
    "AgreementScores",
    "Clone",
    "Cloning",
    "Distillation",
    "agreement_scores",
    "behavioral_clone",
    "distill",
    "resize",
    "tie_sets",
]
