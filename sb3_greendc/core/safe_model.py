"""Models as JSON and tensors: a zip file with ``model.json`` and ``tensors.safetensors``, and no pickles.

SB3's own zip files hold pickles, which can run any code when they are loaded. A file of this form cannot:
it names its algorithm, policy, networks, optimizers and buffers, which must be classes of
:mod:`~sb3_greendc.core.safe_classes`, and holds numbers besides. What is read is what was written, to the
last bit: predictions, and the training that follows. A program that writes such a file may add JSON files of
its own, as checkpoints do; they are not read here.
"""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, TypeAlias, TypeVar

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.save_util import open_path, recursive_getattr, recursive_setattr
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import check_for_correct_spaces, get_device

from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.safe_values import Decoder, Encoder, NotExpressibleError
from sb3_greendc.core.tensor_files import tensors_from_bytes, tensors_to_bytes

MODEL_ENTRY = "model.json"
TENSORS_ENTRY = "tensors.safetensors"
FORMAT = 1
LARGEST_JSON = 64 * 2**20
"""Bytes; a model of a large environment needs a few hundred thousand."""

File: TypeAlias = str | pathlib.Path | io.BufferedIOBase
Model = TypeVar("Model", bound=BaseAlgorithm)

_REBUILT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
)
"""What algorithms raise when they are built from what does not fit."""


@dataclass(frozen=True)
class SafeModel:
    """A model as JSON and tensors, not yet built.

    :param algorithm: one of :data:`~sb3_greendc.core.algorithms.ALGORITHMS`
    :param content: ``data`` (attributes), ``parameters`` (states of networks and optimizers) and
        ``variables`` (other tensors), as JSON
    :param tensors: by the names that ``content`` uses
    """

    algorithm: str
    content: Mapping[str, Any]
    tensors: Mapping[str, th.Tensor]

    def write(self, file: File) -> None:
        """Write the file; one that is there is replaced once all is written.

        :param file: a path, without or with ``.zip``, or an open file
        """
        if isinstance(file, str | pathlib.Path):
            path = pathlib.Path(file)
            with atomic_write(path if path.suffix else path.with_name(f"{path.name}.zip")) as opened:
                self._write(opened)
        else:
            self._write(open_path(file, "w"))

    def _write(self, opened: IO[bytes]) -> None:
        described = {"format": FORMAT, "algorithm": self.algorithm, **self.content}
        with zipfile.ZipFile(opened, "w") as archive:
            text = json.dumps(described, allow_nan=False)
            archive.writestr(zipfile.ZipInfo(MODEL_ENTRY), text, zipfile.ZIP_DEFLATED)
            archive.writestr(zipfile.ZipInfo(TENSORS_ENTRY), tensors_to_bytes(self.tensors))

    def build(
        self,
        cls: type[Model],
        env: GymEnv | None = None,
        device: th.device | str = "auto",
        custom_objects: Mapping[str, Any] | None = None,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Model:
        """Build the model, as SB3's ``load`` does.

        :param cls: class of the model
        :param env: environment with the model's spaces, ``None`` for predictions alone
        :param device: of the model
        :param custom_objects: attributes to take in place of those of the file
        :param force_reset: reset the environment before training
        :param kwargs: attributes to set
        :raises ValueError: if the model is of another class or other spaces, or is none that can be built
        """
        saved_by = algorithm_class(self.algorithm)
        if not issubclass(cls, saved_by):
            raise ValueError(f"not a model of {cls.__name__}: it was saved by {saved_by.__name__}")
        device = get_device(device)
        custom = dict(custom_objects or {})
        given = {key: value for key, value in self.content["data"].items() if key not in custom}
        data = {**Decoder(self.tensors, device).decode(given), **custom}
        _check_attributes(cls, data)
        renewed = getattr(cls, "renewed_attributes", dict)(data)  # of SafelySaved alone
        data |= {key: value for key, value in renewed.items() if key not in custom}
        parameters = parameters_of(self)
        variables = Decoder(self.tensors, device).decode(self.content["variables"])
        if "policy_kwargs" in kwargs and kwargs["policy_kwargs"] != data["policy_kwargs"]:
            raise ValueError(
                f"policy_kwargs={kwargs['policy_kwargs']}: the saved model has {data['policy_kwargs']}"
            )
        if env is not None:
            env = cls._wrap_env(env, data["verbose"])
            check_for_correct_spaces(env, data["observation_space"], data["action_space"])
            data["n_envs"] = env.num_envs
            if force_reset:
                data["_last_obs"] = None
        try:
            return _assemble(cls, env, device, {**data, **kwargs}, parameters, variables)
        except _REBUILT as error:
            reason = " ".join(str(error).split())[:300]
            raise ValueError(f"no model can be built from it: {type(error).__name__}: {reason}") from error


def parameters_of(saved: SafeModel) -> dict[str, Any]:
    """Return the states of networks and optimizers by name, as SB3's ``set_parameters`` takes them.

    :raises ValueError: if they are none
    """
    parameters: dict[str, Any] = Decoder(saved.tensors).decode(saved.content["parameters"])
    return parameters


def express(model: BaseAlgorithm) -> SafeModel:
    """Return a model as JSON and tensors.

    :raises NotExpressibleError: if something of it cannot be kept so; the message names it
    """
    names, variables = model._get_torch_save_params()
    excluded = {*model._excluded_save_params(), *(name.split(".")[0] for name in (*names, *variables))}
    data = {key: value for key, value in vars(model).items() if key not in excluded}
    encoder = Encoder()
    content = {
        "data": encoder.encode(data, "data"),
        "parameters": encoder.encode(model.get_parameters(), "parameters"),
        "variables": encoder.encode(
            {name: recursive_getattr(model, name) for name in variables}, "variables"
        ),
    }
    return SafeModel(_algorithm_of(type(model)), content, encoder.tensors)


def open_model(file: File) -> Any:
    """Open a saved model to read.

    :param file: a path, without or with ``.zip``, or an open file, which is returned
    :raises FileNotFoundError: if there is none
    """
    try:
        return open_path(file, "r", suffix="zip")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{file}: no such model, neither with .zip nor without") from error


def read_safe_model(file: File) -> SafeModel | None:
    """Read a file of this form; nothing is built yet. ``None`` if it is a file of another form.

    :param file: a path, without or with ``.zip``, or an open file
    :raises ValueError: if it is of this form, and damaged
    :raises FileNotFoundError: if there is none
    """
    opened = open_model(file)
    by_path = isinstance(file, str | pathlib.Path)
    try:
        with zipfile.ZipFile(opened) as archive:
            if MODEL_ENTRY not in archive.namelist():
                return None
            names = archive.namelist()
            others = [name for name in names if name != TENSORS_ENTRY and not name.endswith(".json")]
            if others or names.count(MODEL_ENTRY) != 1 or names.count(TENSORS_ENTRY) != 1:
                raise ValueError(
                    f"holds {', '.join(sorted(names))[:200]}: must be one {MODEL_ENTRY} and {TENSORS_ENTRY}, "
                    "and further .json files at most"
                )
            text, tensors = archive.getinfo(MODEL_ENTRY), archive.getinfo(TENSORS_ENTRY)
            if text.file_size > LARGEST_JSON:
                raise ValueError(
                    f"{MODEL_ENTRY} of {text.file_size:,} bytes: must be {LARGEST_JSON:,} at most"
                )
            if tensors.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{TENSORS_ENTRY} is compressed: it must be stored as it is")
            return _parse(archive.read(text), archive.read(tensors))
    except zipfile.BadZipFile as error:
        if by_path and not zipfile.is_zipfile(opened.name):
            return None
        raise ValueError(f"damaged: {error}") from error
    except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ValueError(f"damaged: {error}") from error
    finally:
        if by_path:
            opened.close()
        else:
            opened.seek(0)


def _parse(text: bytes, tensors: bytes) -> SafeModel:
    try:
        described = json.loads(text)
        version, algorithm = described.pop("format"), described.pop("algorithm")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{MODEL_ENTRY} is no description of a model: {error}") from error
    if version != FORMAT:
        raise ValueError(f"format {version!r}: this version of the package reads format {FORMAT}")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm {str(algorithm)[:80]!r}: must be one of {', '.join(ALGORITHMS)}")
    parts = ("data", "parameters", "variables")
    if set(described) != set(parts) or not all(isinstance(described[part], dict) for part in parts):
        raise ValueError(f"{MODEL_ENTRY} must hold {', '.join(parts)}")
    return SafeModel(algorithm, described, tensors_from_bytes(tensors))


def _assemble(
    cls: type[Model],
    env: Any,
    device: th.device,
    data: Mapping[str, Any],
    parameters: Mapping[str, Any],
    variables: Mapping[str, Any],
) -> Model:
    model = cls(policy=data["policy_class"], env=env, device=device, _init_setup_model=False)  # type: ignore[call-arg]
    vars(model).update(data)
    model._setup_model()
    names, tensor_names = model._get_torch_save_params()
    if set(parameters) != set(names) or set(variables) != set(tensor_names):
        raise ValueError(f"parameters {sorted(parameters)}: must be {sorted(names)}")
    model.set_parameters(dict(parameters), exact_match=True, device=device)
    for name, value in variables.items():
        if value is not None:
            if recursive_getattr(model, name).shape != value.shape:
                raise ValueError(f"{name}: of shape {tuple(value.shape)}")
            recursive_setattr(model, f"{name}.data", value)
    if model.use_sde:
        model.policy.reset_noise()  # type: ignore[operator]
    return model


def _check_attributes(cls: type[BaseAlgorithm], data: Mapping[str, Any]) -> None:
    """Refuse attributes that would hide methods, and a model without a policy or spaces."""
    for key in data:
        if (
            key.startswith("__")
            or callable(getattr(cls, key, None))
            or isinstance(getattr(cls, key, None), property)
        ):
            raise ValueError(f"attribute {key[:80]!r}: none that a model of {cls.__name__} keeps")
    needed = ("policy_class", "policy_kwargs", "observation_space", "action_space", "verbose")
    missing = [key for key in needed if key not in data]
    if missing:
        raise ValueError(f"attribute {missing[0]!r}: missing")
    policy = data["policy_class"]
    if not (isinstance(policy, type) and issubclass(policy, BasePolicy)):
        raise ValueError(f"policy_class={str(policy)[:80]}: no policy")


def _algorithm_of(cls: type[BaseAlgorithm]) -> str:
    for name, place in ALGORITHMS.items():
        if place.endswith(f":{cls.__name__}") and algorithm_class(name) is cls:
            return name
    raise NotExpressibleError(
        f"class {cls.__module__}.{cls.__qualname__}: no algorithm of this package or SB3"
    )
