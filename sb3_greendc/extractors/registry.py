"""Extractors by name, so that a YAML file can say ``features_extractor: resource_rows``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor, NatureCNN

from greendc.config import require_one_of
from sb3_greendc.extractors.combined import MaskedCombinedExtractor
from sb3_greendc.extractors.forecast import ForecastExtractor
from sb3_greendc.extractors.job_matrix import JobMatrixExtractor
from sb3_greendc.extractors.job_set import JobSetExtractor
from sb3_greendc.extractors.resource_image import ResourceImageExtractor
from sb3_greendc.extractors.resource_rows import ResourceRowsExtractor

EXTRACTORS: dict[str, type[BaseFeaturesExtractor]] = {
    "combined": MaskedCombinedExtractor,
    "flatten": FlattenExtractor,
    "forecast": ForecastExtractor,
    "job_matrix": JobMatrixExtractor,
    "job_set": JobSetExtractor,
    "nature_cnn": NatureCNN,
    "resource_image": ResourceImageExtractor,
    "resource_rows": ResourceRowsExtractor,
}
"""Name and class of each extractor; add your own to use it by name."""


def extractor_class(name: str) -> type[BaseFeaturesExtractor]:
    """Return the class of an extractor.

    :param name: one of :data:`EXTRACTORS`
    :raises ValueError: for an unknown name; the message names the nearest known one
    """
    require_one_of("features_extractor", name, EXTRACTORS)
    return EXTRACTORS[name]


def resolve_extractor(policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return policy arguments as SB3 takes them: ``features_extractor`` (a name) becomes the class.

    :param policy_kwargs: perhaps with the key ``features_extractor``; ``features_extractor_kwargs`` and all
        else stay as they are
    :raises ValueError: for an unknown name, or if ``features_extractor_class`` is there too
    """
    resolved = dict(policy_kwargs)
    if "features_extractor" in resolved:
        if "features_extractor_class" in resolved:
            raise ValueError("features_extractor and features_extractor_class: give one of the two")
        resolved["features_extractor_class"] = extractor_class(resolved.pop("features_extractor"))
    return resolved
