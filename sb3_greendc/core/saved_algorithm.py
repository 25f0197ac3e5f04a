"""How our algorithms are saved and loaded: as JSON and tensors, or in SB3's own form.

SB3's zip files do not say which algorithm they are of, and loading one with another fails somewhere
inside, or does not fail. Our algorithms keep their name under ``algorithm_name`` and call
:func:`check_saved_algorithm` before anything in such a file is unpickled.
"""

from __future__ import annotations

import inspect
import io
import json
import operator
import pathlib
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.type_aliases import GymEnv

from greendc.config import nearest
from sb3_greendc.core.safe_model import LARGEST_JSON, express, open_model, parameters_of, read_safe_model
from sb3_greendc.core.safe_values import NotExpressibleError

SelfSafelySaved = TypeVar("SelfSafelySaved", bound="SafelySaved")


class SavedModelError(ValueError):
    """A file is no saved model that is to be read."""


class SafelySaved(BaseAlgorithm):
    """An algorithm that is saved as JSON and tensors, which run no code when they are loaded."""

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Save the model as JSON and tensors, see :mod:`~sb3_greendc.core.safe_model`.

        A model with something that cannot be kept so, such as a class or a schedule of one's own, is saved
        in SB3's form, with a warning. So it is with ``exclude`` or ``include``, even empty ones.

        :param path: a path, to which ``.zip`` is added where it lacks, or an open file
        :param exclude: as for SB3's ``save``
        :param include: as for SB3's ``save``
        """
        if exclude is None and include is None:
            try:
                express(self).write(path)
            except NotExpressibleError as error:
                warnings.warn(f"saved in SB3's form, with pickled code: {error}", stacklevel=2)
            else:
                return
        super().save(path, exclude, include)

    @staticmethod
    def renewed_attributes(saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return those attributes of a file of an earlier version that this version keeps otherwise.

        :param saved: the attributes of a file; of one in SB3's form, objects are strings
        """
        return {}

    @classmethod
    def load(
        cls: type[SelfSafelySaved],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        device: th.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> SelfSafelySaved:
        """Load a model from a zip file: of JSON and tensors, or in SB3's form.

        A file in SB3's form holds pickled code, which runs when it is loaded: load only what you made
        yourself.

        :param path: the file
        :param env: environment with the model's spaces; ``None``: for predictions
        :param device: of the model
        :param custom_objects: attributes to take in place of those of the file
        :param print_system_info: of files in SB3's form, as for SB3's ``load``
        :param force_reset: reset the environment before training
        :param kwargs: attributes to set
        :raises ValueError: if the file is damaged, another algorithm saved it, or ``env`` has other spaces
        :raises TypeError: for an attribute that the algorithm does not have
        """
        try:
            saved = read_safe_model(path)
            if saved is not None:
                require_options(cls, kwargs, saved.content["data"])
                return saved.build(cls, env, device, custom_objects, force_reset, **kwargs)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        data = _read_data(path) or {}
        require_options(cls, kwargs, data)
        renewed = cls.renewed_attributes(data)
        kwargs = {key: renewed[key] for key in renewed if key not in (custom_objects or {})} | kwargs
        return super().load(path, env, device, custom_objects, print_system_info, force_reset, **kwargs)

    def set_parameters(
        self,
        load_path_or_dict: Any,
        exact_match: bool = True,
        device: th.device | str = "auto",
    ) -> None:
        """Take the parameters of a saved model, of either form, or of a dict; see SB3.

        :param load_path_or_dict: a path, an open file, or what ``get_parameters`` returned
        :param exact_match: whether all parameters must be there
        :param device: of parameters in SB3's form
        :raises ValueError: if the file is damaged, or the parameters are of another model
        """
        if not isinstance(load_path_or_dict, dict):
            try:
                saved = read_safe_model(load_path_or_dict)
                if saved is None:
                    _, parameters, _ = load_from_zip_file(load_path_or_dict, device=device, load_data=False)
                else:
                    parameters = parameters_of(saved)
                check_parameters(self, parameters, exact_match)
            except ValueError as error:
                raise ValueError(f"{load_path_or_dict}: {error}") from error
        else:
            parameters = load_path_or_dict
            check_parameters(self, parameters, exact_match)
        super().set_parameters(parameters, exact_match, device)


def require_options(cls: type[BaseAlgorithm], given: Iterable[str], attributes: Iterable[str]) -> None:
    """Raise a ``TypeError`` that names what is neither an option of an algorithm nor an attribute of a model.

    SB3's ``load`` sets whatever it is given, and a misspelt option changes nothing.

    :param cls: the algorithm
    :param given: names
    :param attributes: of the model
    """
    inits = [base.__dict__["__init__"] for base in cls.__mro__ if "__init__" in base.__dict__]
    options = {name for init in inits[:-1] for name in inspect.signature(init).parameters}
    known = (options | set(attributes)) - {"self"}
    for name in given:
        if name not in known:
            raise TypeError(f"{name}: no option of {cls.__name__}{nearest(name, sorted(known))}")


def check_parameters(model: BaseAlgorithm, parameters: Mapping[str, Any], exact_match: bool) -> None:
    """Raise a ``ValueError`` that names the first parameter that another model must have had.

    :param model: whose networks are to take them
    :param parameters: of each network, by its name; see :meth:`SafelySaved.set_parameters`
    :param exact_match: whether all of a network's parameters must be there
    """
    wanted = model._get_torch_save_params()[0]
    missing = [name for name in wanted if name not in parameters]
    if exact_match and missing:
        raise ValueError(f"{missing[0]} is in this model alone: the parameters are of another model")
    for name, given in parameters.items():
        try:
            network = operator.attrgetter(name)(model)
        except AttributeError:
            network = None
        if network is None or (exact_match and name not in wanted):
            raise ValueError(f"{name} is none of this model's (it has {', '.join(wanted)})")
        if not isinstance(network, th.nn.Module):
            continue  # an optimizer
        own = network.state_dict()
        for key, tensor in given.items():
            if key in own and tensor.shape != own[key].shape:
                shapes = f"of shape {tuple(tensor.shape)}, this model's is {tuple(own[key].shape)}"
                raise ValueError(f"{name}.{key}: {shapes}: the parameters are of another model")
        others = sorted(own.keys() ^ given.keys())
        if exact_match and others:
            where = "is in this model alone" if others[0] in own else "is none of this model's"
            raise ValueError(f"{name}.{others[0]} {where}: the parameters are of another model")


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
    file = open_model(path)
    try:
        with zipfile.ZipFile(file) as archive:
            if "data" not in archive.namelist():
                return None
            size = archive.getinfo("data").file_size
            if size > LARGEST_JSON:
                raise SavedModelError(f"{path}: data of {size:,} bytes: must be {LARGEST_JSON:,} at most")
            data: dict[str, Any] = json.loads(archive.read("data"))
            return data
    except SavedModelError:
        raise
    except (zipfile.BadZipFile, zlib.error, RecursionError, ValueError):
        return None
    finally:
        if isinstance(path, (str, pathlib.Path)):
            file.close()
        else:
            file.seek(0)
