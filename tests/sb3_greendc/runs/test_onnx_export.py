"""ONNX files give torch's logits under masks, and the actions of ``predict``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from greendc.shipped.release import releases
from sb3_greendc import (
    CRR,
    DiscreteSAC,
    PIDLagrangianPPO,
    collect,
    export_onnx,
    load_pretrained,
    make_vec_env,
)
from sb3_greendc.core.masking import MASKED_LOGIT

POOL: dict[str, Any] = {"episode_steps": 30, "mask": "now", "image_dtype": "float32"}
"""With bytes up to 255 the sums of a random network are so large that float32 has no fifth decimal."""
SMALL: dict[str, Any] = {"seed": 0, "device": "cpu"}
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
"""Relative for logits far from 0, of which float32 has seven digits."""
ON: dict[str, Any] = {**SMALL, "n_steps": 8, "batch_size": 16}


def pool(**options: Any) -> VecEnv:
    return make_vec_env("ResourcePool-10-v0", 3, seed=0, **POOL, **options)


def vcc(env_id: str = "VCC-2019-v1") -> VecEnv:
    return make_vec_env(env_id, 3, seed=0, days=1)


def crr() -> CRR:
    data = collect(["hvf"], "ResourcePool-10-v0", 90, n_envs=1, env_kwargs=POOL)
    return CRR("MultiInputPolicy", pool(), dataset=data, **SMALL)


def crr_continuous(**options: Any) -> CRR:
    data = collect(["moer_threshold"], "VCC-2019-v1", 60, n_envs=1, env_kwargs={"days": 1})
    return CRR("MlpPolicy", vcc(), dataset=data, **SMALL, **options)


def pid_masked_apart() -> PIDLagrangianPPO:
    return PIDLagrangianPPO("MlpPolicy", pool(observation="flat"), cost_limit=1.0, **ON)


def takes_masks(model: BaseAlgorithm) -> bool:
    """Tell whether ``predict`` needs the masks of the environment."""
    apart = isinstance(model, PIDLagrangianPPO) and not isinstance(model.observation_space, spaces.Dict)
    return isinstance(model, MaskablePPO) or apart


CASES: dict[str, Any] = {
    "MaskablePPO": lambda: MaskablePPO("MultiInputPolicy", pool(), **ON),
    "MaskablePPO, masks apart": lambda: MaskablePPO("MlpPolicy", pool(observation="flat"), **ON),
    "DiscreteSAC": lambda: DiscreteSAC("MultiInputPolicy", pool(), buffer_size=100, **SMALL),
    "CRR": crr,
    "CRR, continuous": crr_continuous,
    "CRR, the best of four": lambda: crr_continuous(n_action_samples=4),
    "PIDLagrangianPPO": lambda: PIDLagrangianPPO("MultiInputPolicy", pool(), cost_limit=1.0, **ON),
    "PIDLagrangianPPO, masks apart": lambda: pid_masked_apart(),
    "PPO without masks": lambda: PPO("MultiInputPolicy", pool(), **ON),
    "DQN": lambda: DQN("MlpPolicy", vcc("DiscreteVCC-2019-v1"), buffer_size=100, **SMALL),
    "PPO, continuous": lambda: PPO("MlpPolicy", vcc(), **ON),
    "PPO, squashed": lambda: PPO(
        "MlpPolicy", vcc(), use_sde=True, policy_kwargs={"squash_output": True}, **ON
    ),
    "PIDLagrangianPPO, continuous": lambda: PIDLagrangianPPO("MlpPolicy", vcc(), cost_limit=1.0, **ON),
}


def spread(model: BaseAlgorithm) -> BaseAlgorithm:
    """Give a fresh network weights that tell actions apart."""
    th.manual_seed(1)
    with th.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(0.1 * th.randn_like(parameter))
    return model


def session(path: Path) -> Any:
    return pytest.importorskip("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])


def export(model: BaseAlgorithm, path: Path, **options: Any) -> Any:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return session(export_onnx(model, path, **options))


def observations_of(env: VecEnv, steps: int = 40) -> tuple[Any, Any]:
    """Return a batch of observations out of an episode, and masks, if the environments have any."""
    seen: list[Any] = []
    masks: list[Any] = []
    observation = env.reset()
    env.action_space.seed(0)
    for _ in range(steps):
        seen.append(
            {k: v.copy() for k, v in observation.items()}
            if isinstance(observation, dict)
            else observation.copy()
        )
        if env.has_attr("action_masks"):
            masks.append(np.stack(env.env_method("action_masks")))
        observation = env.step(np.stack([env.action_space.sample() for _ in range(env.num_envs)]))[0]
    mask = np.concatenate(masks) if masks else None
    if isinstance(seen[0], dict):
        return {key: np.concatenate([one[key] for one in seen]) for key in seen[0]}, mask
    return np.concatenate(seen), mask


def inputs_of(runtime: Any, observation: Any, mask: Any) -> dict[str, Any]:
    given = dict(observation) if isinstance(observation, dict) else {"observation": observation}
    names = [one.name for one in runtime.get_inputs()]
    if "action_mask" in names and "action_mask" not in given:
        given["action_mask"] = mask.astype(np.int8)
    return {name: given[name] for name in names}


def torch_log_probs(model: BaseAlgorithm, observation: Any, mask: Any) -> np.ndarray[Any, Any]:
    """Return the log-probabilities of the policy's own distribution under the masks that it obeys."""
    policy: Any = model.policy
    tensors = policy.obs_to_tensor(observation)[0]
    with th.no_grad():
        if hasattr(policy, "action_log_probs"):
            log_probs: th.Tensor = policy.action_log_probs(tensors)
        elif takes_masks(model) and mask is not None:
            log_probs = policy.get_distribution(tensors, action_masks=th.as_tensor(mask)).distribution.logits
        elif isinstance(model, DQN):
            log_probs = policy.q_net(tensors).log_softmax(dim=1)
        else:
            log_probs = policy.get_distribution(tensors).distribution.logits
    return log_probs.numpy()


def check(model: BaseAlgorithm, runtime: Any, observation: Any, mask: Any) -> None:
    found = dict(
        zip(
            [one.name for one in runtime.get_outputs()],
            runtime.run(None, inputs_of(runtime, observation, mask)),
            strict=True,
        )
    )
    masks = {"action_masks": mask} if takes_masks(model) and mask is not None else {}
    action = model.predict(observation, deterministic=True, **masks)[0]
    if "logits" not in found:
        np.testing.assert_allclose(found["action"], action, **CLOSE)
        return
    logits = th.as_tensor(found["logits"])
    # The graph computes every slot of a job set; torch leaves empty ones out, which rounds in another order.
    with mock.patch.object(th.onnx, "is_in_onnx_export", return_value=True):
        expected = torch_log_probs(model, observation, mask)
    np.testing.assert_allclose(torch_log_probs(model, observation, mask), expected, rtol=1e-3, atol=5e-3)
    valid = logits.numpy() > MASKED_LOGIT
    obeys = not isinstance(model, DQN) and not (type(model) is PPO and mask is not None)
    if obeys and mask is not None:
        np.testing.assert_array_equal(valid, mask.astype(bool))
        assert (found["logits"][~valid] == np.float32(MASKED_LOGIT)).all() and not valid.all()
    np.testing.assert_allclose(logits.log_softmax(dim=1).numpy()[valid], expected[valid], **CLOSE)
    # Of two actions with the same logit, but for the last bits, either may come first.
    chosen = np.take_along_axis(expected, action[:, None].astype(np.int64), 1)
    ours = np.take_along_axis(expected, found["action"][:, None], 1)
    np.testing.assert_allclose(ours, chosen, **CLOSE)
    assert len(np.unique(action)) > 1


@pytest.mark.parametrize("name", CASES)
def test_logits_under_masks_and_actions_are_torchs(name: str, tmp_path: Path) -> None:
    model = spread(CASES[name]())
    runtime = export(model, tmp_path / "sub" / "policy.onnx")
    env = model.get_env()
    assert env is not None
    observation, mask = observations_of(env)
    check(model, runtime, observation, mask)
    one = {k: v[:1] for k, v in observation.items()} if isinstance(observation, dict) else observation[:1]
    runtime.run(None, inputs_of(runtime, one, None if mask is None else mask[:1]))  # a batch of any length


def inputs(model: BaseAlgorithm, path: Path) -> list[str]:
    return [one.name for one in export(model, path / "policy.onnx").get_inputs()]


def test_pid_ppo_has_a_mask_as_input_if_its_environment_gave_masks(tmp_path: Path) -> None:
    """Also loaded without an environment, if it was trained under masks; otherwise with one that has some."""
    model = pid_masked_apart()
    assert inputs(model, tmp_path) == ["observation", "action_mask"]
    model.save(tmp_path / "untrained")
    assert inputs(PIDLagrangianPPO.load(tmp_path / "untrained", device="cpu"), tmp_path) == ["observation"]
    model.learn(24)
    model.save(tmp_path / "trained")
    loaded = PIDLagrangianPPO.load(tmp_path / "trained", device="cpu")
    assert inputs(loaded, tmp_path) == ["observation", "action_mask"]
    maskless = PIDLagrangianPPO("MlpPolicy", vcc("DiscreteVCC-2019-v1"), cost_limit=1.0, **ON)
    assert inputs(maskless, tmp_path) == ["observation"]
    box = PIDLagrangianPPO("MlpPolicy", vcc(), cost_limit=1.0, **ON)
    assert inputs(box, tmp_path) == ["observation"]


@pytest.mark.parametrize("name", sorted(releases()))
def test_policies_that_ship(name: str, tmp_path: Path) -> None:
    model = load_pretrained(name)
    env = model.get_env()
    assert env is not None
    env.seed(0)
    check(model, export(model, tmp_path / "policy.onnx"), *observations_of(env))


def test_the_normalizer_is_inside(tmp_path: Path) -> None:
    env = VecNormalize(vcc(), norm_reward=False, clip_obs=2.0)
    model = spread(PPO("MlpPolicy", env, **ON).learn(24))
    raw, _ = observations_of(env.venv)
    expected = model.predict(env.normalize_obs(raw), deterministic=True)[0]
    assert not np.allclose(expected, model.predict(raw, deterministic=True)[0], atol=1e-3)
    runtime = export(model, tmp_path / "a.onnx")
    np.testing.assert_allclose(runtime.run(None, {"observation": raw})[0], expected, **CLOSE)
    model.env = None  # as after loading
    runtime = export(model, tmp_path / "b.onnx", normalizer=env)
    np.testing.assert_allclose(runtime.run(None, {"observation": raw})[0], expected, **CLOSE)


def test_what_cannot_be_exported_is_one_clear_error(tmp_path: Path) -> None:
    sac = SAC("MlpPolicy", vcc(), buffer_size=100, **SMALL)
    with pytest.raises(ValueError, match="policy SACPolicy is none of those: must be one of PPO"):
        export_onnx(sac, tmp_path / "x.onnx")
    recurrent = RecurrentPPO("MlpLstmPolicy", vcc(), **ON)
    with pytest.raises(ValueError, match="is recurrent"):
        export_onnx(recurrent, tmp_path / "x.onnx")
    with pytest.raises(ValueError, match=r"path=.*must be one that ends in .onnx"):
        export_onnx(PPO("MlpPolicy", vcc(), **ON), tmp_path / "x.zip")
    parts = spaces.Dict(x=spaces.Box(0, 1, (2,)), phase=spaces.Discrete(3))
    model = CRR("MultiInputPolicy", observation_space=parts, action_space=spaces.Discrete(2), **SMALL)
    with pytest.raises(ValueError, match=r"observation space of 'phase', Discrete\(3\): must be Box"):
        export_onnx(model, tmp_path / "x.onnx")


def test_without_onnx(without_module: Callable[[str], None], tmp_path: Path) -> None:
    without_module("onnx")
    with pytest.raises(ImportError, match=r"pip install 'sb3-greendc\[onnx\]'"):
        export_onnx(PPO("MlpPolicy", vcc(), **ON), tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())
