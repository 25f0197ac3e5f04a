"""Where trained models come from: the package that has the algorithms adds them by an entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

PLUGINS = "greendc.policies"
"""Entry points; ``trained`` is the module that loads trained models, loaded for them alone."""


class OtherFamilyError(ValueError):
    """A trained model is for other environments."""


def names_a_run(name: str) -> bool:
    """Tell whether a policy's name is the path of a trained run or of its ``model.zip``."""
    return name.endswith(".zip") or "/" in name or "\\" in name or Path(name).exists()


def trained_models(source: str) -> Any:
    """Return the module with ``TrainedPolicy`` and ``RolloutWithPrior``.

    The former raises an :class:`OtherFamilyError` for a model of another family than it is asked for.

    :param source: what asks for it, for errors
    :raises ValueError: if it, or what it needs, is not installed
    """
    try:
        (module,) = (point.load() for point in entry_points(group=PLUGINS, name="trained"))
    except ModuleNotFoundError as error:
        raise ValueError(f"policy {source!r}: a trained model needs {error.name}, which is missing") from None
    except ValueError:
        raise ValueError(f"policy {source!r}: a trained model needs sb3-greendc to be installed") from None
    return module
