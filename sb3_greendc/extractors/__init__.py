"""Feature extractors for Stable-Baselines3's algorithms and ours, by class and by name."""

from sb3_greendc.extractors.combined import MaskedCombinedExtractor
from sb3_greendc.extractors.forecast import ForecastExtractor
from sb3_greendc.extractors.job_matrix import JobMatrixExtractor
from sb3_greendc.extractors.job_set import JobSetExtractor
from sb3_greendc.extractors.policies import (
    JobSetDQNPolicy,
    JobSetPolicy,
    MaskableJobSetPolicy,
    MaskedActorCriticPolicy,
)
from sb3_greendc.extractors.registry import EXTRACTORS, extractor_class, resolve_extractor
from sb3_greendc.extractors.resource_image import ResourceImageExtractor
from sb3_greendc.extractors.resource_rows import ResourceRowsExtractor

__all__ = [
    "EXTRACTORS",
    "ForecastExtractor",
    "JobMatrixExtractor",
    "JobSetDQNPolicy",
    "JobSetExtractor",
    "JobSetPolicy",
    "MaskableJobSetPolicy",
    "MaskedActorCriticPolicy",
    "MaskedCombinedExtractor",
    "ResourceImageExtractor",
    "ResourceRowsExtractor",
    "extractor_class",
    "resolve_extractor",
]
