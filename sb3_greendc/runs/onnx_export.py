"""Policies as ONNX files: the action mask, and what normalises observations, are inside the graph."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import is_masking_supported
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.dqn.policies import DQNPolicy
from torch import nn

from greendc.config import require
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.masking import ACTION_MASK, mask_logits
from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.discrete_sac.policies import DiscreteSACPolicy
from sb3_greendc.extractors.policies import MaskedActorCriticPolicy
from sb3_greendc.pid_ppo.policies import MaskedActorMixin

OBSERVATION = "observation"
"""The input of policies whose observations are one vector; those of a ``Dict`` have its keys as inputs."""
BATCH = "batch"


def export_onnx(
    model: BaseAlgorithm, path: str | Path, normalizer: VecNormalize | None = None, opset: int = 17
) -> Path:
    """Write the policy of a model as an ONNX file; runtimes then need neither torch nor SB3.

    Inputs are the observation's parts by their keys (or ``observation``), in the dtypes of their spaces,
    with a batch axis of any length in front. A policy that takes masks apart from observations has
    ``action_mask`` as a further input, int8: MaskablePPO always, PIDLagrangianPPO if it was trained under its
    environment's ``action_masks()``, or has such an environment.

    Outputs: ``action``, what ``predict(deterministic=True)`` returns, and with discrete actions ``logits``
    (DQN: values) ``(batch, n_actions)``. Where the policy obeys masks, the logits of invalid actions are -1e8
    (:data:`~sb3_greendc.core.masking.MASKED_LOGIT`).

    Sums of float32 differ between torch and a runtime in the last bits: logits by less than 1e-5, and by less
    than 1e-5 of their size where that is above 1. The graph computes the empty slots of a job set, which
    torch leaves out: there the difference is up to 2e-3, as large as that of torch's own float32 to float64.

    :param model: of PPO, A2C, MaskablePPO, PIDLagrangianPPO, DiscreteSAC, CRR, DQN, or another algorithm
        whose policy is one of theirs
    :param path: ends in ``.onnx``
    :param normalizer: the ``VecNormalize`` that the model was trained under, if it has no environment that
        tells (:func:`~sb3_greendc.runs.models.load_model` returns it)
    :param opset: version of ONNX's operators
    :return: the path
    :raises ImportError: without ``onnx``; with the line that installs it
    :raises ValueError: for a path of another ending, or a policy of another kind, such as a recurrent one
    """
    path = Path(path)
    require(path.suffix == ".onnx", "path", str(path), "one that ends in .onnx")
    graph = _Graph(model.policy, normalizer or model.get_vec_normalize_env(), _has_masks_apart(model))
    _import_onnx()
    model.policy.set_training_mode(False)
    examples = tuple(
        th.zeros((2, *shape), dtype=dtype, device=model.device) for shape, dtype in graph.inputs.values()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [*graph.inputs, *graph.outputs]
    with _quiet(), th.no_grad(), atomic_write(path) as file:
        written = io.BytesIO()
        th.onnx.export(
            graph,
            examples,
            written,  # type: ignore[arg-type]  # takes open files, too
            dynamo=False,  # the newer exporter takes a hundred times as long for networks of this size
            opset_version=opset,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_axes={name: {0: BATCH} for name in names},
        )
        file.write(written.getvalue())
    return path


class _Graph(nn.Module):
    """The policy as a function of plain tensors.

    :param policy: the policy
    :param normalizer: of its observations
    :param masks_apart: whether a mask is an input besides the observation
    """

    def __init__(self, policy: BasePolicy, normalizer: VecNormalize | None, masks_apart: bool) -> None:
        super().__init__()
        _require_known(policy)
        self.policy = policy
        space = policy.observation_space
        self.keys = list(space.spaces) if isinstance(space, spaces.Dict) else [OBSERVATION]
        self.is_dict = isinstance(space, spaces.Dict)
        known: Mapping[str, spaces.Space[Any]] = (
            space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
        )
        self.inputs = {key: _shape_and_dtype(key, part) for key, part in known.items()}
        self.discrete = isinstance(policy.action_space, spaces.Discrete)
        self.outputs = ("logits", "action") if self.discrete else ("action",)
        self.is_masked = self.discrete and isinstance(
            policy,
            MaskableActorCriticPolicy | MaskedActorCriticPolicy | MaskedActorMixin | DiscreteSACPolicy,
        )
        if masks_apart and ACTION_MASK not in self.keys:
            assert isinstance(policy.action_space, spaces.Discrete)
            self.inputs[ACTION_MASK] = ((int(policy.action_space.n),), th.int8)
        self.clip = 0.0
        self.normalized: list[str] = []
        if normalizer is not None and normalizer.norm_obs:
            self._add_normalizer(normalizer)

    def _add_normalizer(self, normalizer: VecNormalize) -> None:
        self.clip = float(normalizer.clip_obs)
        statistics = normalizer.obs_rms
        by_key = statistics if isinstance(statistics, dict) else {OBSERVATION: statistics}
        for key, one in by_key.items():
            scale = np.sqrt(one.var + normalizer.epsilon)
            for name, values in (("mean", one.mean), ("scale", scale)):
                tensor = th.as_tensor(values, dtype=th.float64, device=self.policy.device)
                self.register_buffer(f"{name}_{key}", tensor)
            self.normalized.append(key)

    def forward(self, *parts: th.Tensor) -> tuple[th.Tensor, ...]:
        """Return the outputs for the inputs, in their order."""
        given = dict(zip(self.inputs, parts, strict=True))
        mask = given.get(ACTION_MASK)
        for key in self.normalized:  # in float64, as VecNormalize does
            mean, scale = getattr(self, f"mean_{key}"), getattr(self, f"scale_{key}")
            given[key] = ((given[key].double() - mean) / scale).clamp(-self.clip, self.clip).float()
        observation: Any = {key: given[key] for key in self.keys} if self.is_dict else given[OBSERVATION]
        outputs = _raw_outputs(self.policy, observation)
        if self.discrete:
            logits = mask_logits(outputs, mask) if self.is_masked else outputs
            return logits, logits.argmax(dim=1)
        space = self.policy.action_space
        assert isinstance(space, spaces.Box)
        low, high = th.as_tensor(space.low).to(outputs), th.as_tensor(space.high).to(outputs)
        if self.policy.squash_output:
            return (low + 0.5 * (outputs + 1.0) * (high - low),)
        return (th.minimum(th.maximum(outputs, low), high),)


def _raw_outputs(policy: BasePolicy, observation: Any) -> th.Tensor:
    """Return logits, values, or actions before they are clipped or scaled."""
    if isinstance(policy, DiscreteSACPolicy):
        return policy.logits(policy.encode(observation))
    if isinstance(policy, BoxCRRPolicy):
        return policy.act(policy.encode(observation), deterministic=True)
    if isinstance(policy, DQNPolicy):
        values: th.Tensor = policy.q_net(observation)
        return values
    assert isinstance(policy, ActorCriticPolicy | MaskableActorCriticPolicy)
    features = policy.extract_features(observation)
    if isinstance(features, tuple):
        features = features[0]
    outputs: th.Tensor = policy.action_net(policy.mlp_extractor.forward_actor(features))
    return outputs.tanh() if policy.squash_output else outputs


def _has_masks_apart(model: BaseAlgorithm) -> bool:
    """Tell whether ``predict`` needs masks as ``action_masks``."""
    if isinstance(model.policy, MaskableActorCriticPolicy):
        return True
    if not isinstance(model.policy, MaskedActorMixin) or not isinstance(model.action_space, spaces.Discrete):
        return False
    env = model.get_env()
    return getattr(model, "masked_by_env", False) or (env is not None and is_masking_supported(env))


def _require_known(policy: BasePolicy) -> None:
    actor_critic = isinstance(policy, ActorCriticPolicy | MaskableActorCriticPolicy)
    known = actor_critic or isinstance(policy, DQNPolicy | DiscreteSACPolicy | BoxCRRPolicy)
    if not known or isinstance(policy, RecurrentActorCriticPolicy):
        why = "is recurrent" if isinstance(policy, RecurrentActorCriticPolicy) else "is none of those"
        raise ValueError(
            f"policy {type(policy).__name__} {why}: must be one of PPO, A2C, MaskablePPO, PIDLagrangianPPO, "
            "DiscreteSAC, CRR or DQN"
        )
    space = policy.action_space
    if not isinstance(space, spaces.Discrete | spaces.Box) or getattr(space, "start", 0) != 0:
        raise ValueError(f"action space {space}: must be Box, or Discrete that starts at 0")


def _shape_and_dtype(key: str, space: spaces.Space[Any]) -> tuple[tuple[int, ...], th.dtype]:
    if not isinstance(space, spaces.Box):
        raise ValueError(f"observation space of {key!r}, {space}: must be Box")
    return space.shape, th.as_tensor(np.zeros(1, space.dtype)).dtype


def _import_onnx() -> None:
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX files need onnx: pip install 'sb3-greendc[onnx]'") from error
    del onnx


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from telling that it has a newer exporter, and that shapes are compared while it traces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", th.jit.TracerWarning)  # type: ignore[attr-defined]
        yield
