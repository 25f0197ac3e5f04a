"""Data sets of transitions for offline learning: checked, kept on disk, joined, converted."""

from sb3_greendc.datasets.concatenation import concatenate
from sb3_greendc.datasets.dataset import OfflineDataset
from sb3_greendc.datasets.minari_format import from_minari, to_minari
from sb3_greendc.datasets.replay_buffers import from_replay_buffer, to_replay_buffer
from sb3_greendc.datasets.trajectories import from_trajectories, to_trajectories

__all__ = [
    "OfflineDataset",
    "concatenate",
    "from_minari",
    "from_replay_buffer",
    "from_trajectories",
    "to_minari",
    "to_replay_buffer",
    "to_trajectories",
]
