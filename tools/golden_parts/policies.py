"""Part ``policies``: what every policy that ships says of fixed observations."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from golden_parts.acting import random_actions
from golden_parts.digest import Case, Value, digest_of, digest_of_numbers
from golden_parts.names import call, find

SEED = 11
OBSERVATIONS = 24

EVALUATED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ResourcePool-10": (
        {"episode_steps": 40, "mask": "now_on_time", "outlook": 24, "fragmentation": True},
        {
            "shipped": "pretrained",
            "rule": "hvf:dispatch=easy,scope=queue",
            "rollouts": "rollout:futures=2,depth=8",
            "guided": "rollout:futures=2,depth=8,dispatch=easy,prior=pretrained",
        },
    ),
    "ResourcePoolSuspend-10": ({"episode_steps": 30}, {"shipped": "pretrained", "rule": "deadline_never"}),
    "VCC-2021": (
        {"days": 2},
        {"shipped": "pretrained:VCC", "plan": "rolling:margin=0", "search": "best_known:budget=80"},
    ),
}
"""Ids with keyword arguments, and policies that are evaluated in them."""


def cases() -> list[Case]:
    """Return all cases: each release by its name, then every id for which there is one."""
    import greendc

    releases = find("releases")()
    found = [Case(name, partial(judge, name)) for name in releases]
    ids = sorted({env_id.rpartition("-v")[0] for env_id in gym.registry if _is_ours(greendc, env_id)})
    found += [Case(f"for {env_id}", partial(judge_id, env_id)) for env_id in ids]
    return [*found, *(Case(f"evaluated in {env_id}", partial(evaluated, env_id)) for env_id in EVALUATED)]


def _is_ours(greendc: Any, env_id: str) -> bool:
    return greendc.family(env_id) is not None


def judge_id(env_id: str) -> dict[str, Value]:
    """Return what the policy for an id says, or that there is none."""
    try:
        find("load_pretrained")(env_id)
    except ValueError:
        return {"none": digest_of("none")}
    return judge(env_id)


def judge(name: str) -> dict[str, Value]:
    """Return the digests of weights, logits, values and actions.

    :param name: of a release, or an id
    """
    model = find("load_pretrained")(name)
    observations, masks = observations_of(model)
    logits, values = opinions(model, observations, masks)
    actions, _ = model.predict(
        observations, deterministic=True, **({} if masks is None else {"action_masks": masks})
    )
    return {
        "weights": weights_of(model),
        "logits": digest_of(logits, detail=np.array2string(logits[-1], precision=5)),
        "values": digest_of(values, detail=np.array2string(values[-3:], precision=5)),
        "actions": digest_of(actions, detail=str(np.asarray(actions).tolist())),
    }


def last_logits() -> dict[str, list[float]]:
    """Return each release's logits for the last of the fixed observations, to six digits."""
    found = {}
    for name in find("releases")():
        model = find("load_pretrained")(name)
        logits, _ = opinions(model, *observations_of(model))
        found[name] = [float(f"{logit:.6g}") for logit in logits[-1]]
    return found


def observations_of(model: Any, count: int = OBSERVATIONS) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return observations, one after the other, of a model's own environment under random actions.

    :param model: with an environment of one pool or datacenter
    :param count: number of observations
    :return: a batch of observations, and ``(count, n)`` masks where actions are masked
    """
    env = model.get_env()
    rng = np.random.default_rng(SEED)
    env.seed(SEED)
    seen, masks = [env.reset()], []
    seen[0] = _copy(seen[0])
    masked = isinstance(seen[0], dict)
    for _ in range(count):
        mask = np.stack(env.env_method("action_masks")) if masked else None
        masks.append(mask)
        observation, _, _, _ = env.step(random_actions(env.action_space, mask, 1, rng))
        seen.append(_copy(observation))
    seen.pop()
    if masked:
        batch: Any = {key: np.concatenate([one[key] for one in seen]) for key in seen[0]}
        return batch, np.concatenate([mask for mask in masks if mask is not None])
    return np.concatenate(seen), None


def _copy(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: value.copy() for key, value in observation.items()}
    return observation.copy()


def opinions(
    model: Any, observations: Any, masks: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return logits (of ``Box`` actions: means) and values of an actor-critic model.

    :param model: PPO, or a kin of its
    :param observations: a batch
    :param masks: for the batch, or ``None``
    """
    import torch as th

    policy = model.policy
    policy.set_training_mode(False)
    with th.no_grad():
        tensors, _ = policy.obs_to_tensor(observations)
        takes_masks = masks is not None and "Maskable" in type(model).__name__
        found = policy.get_distribution(tensors, **({"action_masks": masks} if takes_masks else {}))
        inner = found.distribution
        logits = inner.logits if hasattr(inner, "logits") else inner.mean
        values = policy.predict_values(tensors)
    return logits.numpy(), values.numpy()


def weights_of(model: Any) -> Value:
    """Return a digest of a model's tensors, in which their names play no part.

    Tensors are hashed one by one, as float32, and the hashes sorted.

    :param model: of Stable-Baselines3
    """
    tensors = [tensor.detach().cpu().float().numpy() for tensor in model.policy.state_dict().values()]
    hashes = sorted(digest_of(tensor).hash for tensor in tensors)
    size = sum(float(np.abs(tensor).sum()) for tensor in tensors)
    return digest_of(hashes, detail=f"{len(hashes)} tensors, sum of absolute values {size:.9g}")


def evaluated(env_id: str) -> dict[str, Value]:
    """Return each policy's results on the same episodes, by the name of the policy.

    :param env_id: one of :data:`EVALUATED`
    """
    settings, policies = EVALUATED[env_id]

    def run(**env_kwargs: Any) -> Any:
        return find("evaluate")(policies, env_id, 3, SEED, env_kwargs=env_kwargs)

    table = call(run, **settings)
    numbers = table.drop(columns=["policy", "run", "env_id"])
    return {
        name: digest_of_numbers({str(key): numbers.loc[rows, key].tolist() for key in numbers})
        for name, rows in table.groupby("policy").groups.items()
    }
