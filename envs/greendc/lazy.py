"""Imports at first use: of pandas, which takes longer than all else, and of the families' simulators."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module until something of it is asked for.

    :param name: of the module
    """

    def __getattr__(self, name: str) -> Any:
        """Return what the module has by that name, which is looked up once."""
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are imported when they are first asked for.

    :param package: name of the package
    :param modules: the module in it that has each name
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return get
