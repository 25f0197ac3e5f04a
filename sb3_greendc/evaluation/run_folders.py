"""Folders of training runs: what commands must not write over, nor leave out without a word."""

from __future__ import annotations

from pathlib import Path

from sb3_greendc.evaluation.progress import PROGRESS_FILE
from sb3_greendc.runs.folder import LOCK, MANIFEST
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, RUN_FILE
from sb3_greendc.runs.portable import ENVIRONMENT_FILE

HISTORY_FILE = "history.csv"
"""The epochs of a clone."""
AGREEMENT_FILE = "agreement.csv"
"""How far a clone agrees with what it was cloned from."""

_OF_TRAINING = {MODEL_FILE, RUN_FILE, MANIFEST, NORMALIZER_FILE, ENVIRONMENT_FILE, PROGRESS_FILE}
FILES_OF_A_RUN = frozenset({*_OF_TRAINING, HISTORY_FILE, AGREEMENT_FILE})
"""What a run keeps in its folder."""

_SIGNS = (MODEL_FILE, MANIFEST, PROGRESS_FILE, LOCK)


def is_run(folder: Path) -> bool:
    """Tell whether a folder is that of a training run: finished, interrupted, diverged, or going on."""
    return any((folder / name).exists() for name in _SIGNS)
