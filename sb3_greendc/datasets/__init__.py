"""Data sets of transitions for offline learning: recorded, checked, kept on disk, converted."""

from sb3_greendc.datasets.concatenation import concatenate
from sb3_greendc.datasets.dataset import OfflineDataset

__all__ = ["OfflineDataset", "concatenate"]
