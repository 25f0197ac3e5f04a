"""Which algorithm saved a zip file: checked before anything in it is unpickled.

SB3's zip files do not say which algorithm they are of, and loading one with another fails somewhere
inside, or does not fail. Our algorithms keep their name under ``algorithm_name`` and call
:func:`check_saved_algorithm` first thing in ``load``.
"""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
from typing import Any

from stable_baselines3.common.save_util import open_path


def check_saved_algorithm(path: str | pathlib.Path | io.BufferedIOBase, expected: str) -> None:
    """Raise a ``ValueError`` if a zip file was saved by another algorithm.

    Files that are no zip files, or hold no data, are left to SB3's own messages.

    :param path: as for ``load``
    :param expected: the ``algorithm_name`` that the file must hold
    """
    data = _read_data(path)
    if data is None or data.get("algorithm_name") == expected:
        return
    found = data.get("algorithm_name")
    if found is None:
        module = data.get("policy_class", {}).get("__module__", "unknown")
        found = f"another algorithm, with a policy from {module}"
    raise ValueError(f"{path}: not a model of {expected}: it was saved by {found}")


def _read_data(path: str | pathlib.Path | io.BufferedIOBase) -> dict[str, Any] | None:
    """Return the raw JSON of the model's attributes; serialized objects in it stay strings."""
    file = open_path(path, "r", suffix="zip")
    try:
        with zipfile.ZipFile(file) as archive:
            if "data" not in archive.namelist():
                return None
            data: dict[str, Any] = json.loads(archive.read("data"))
            return data
    except (zipfile.BadZipFile, ValueError):
        return None
    finally:
        if isinstance(path, (str, pathlib.Path)):
            file.close()
        else:
            file.seek(0)
