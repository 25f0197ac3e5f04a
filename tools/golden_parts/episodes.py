"""Part ``episodes``: what every registered environment does under fixed pseudo-random valid actions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from golden_parts.acting import masks_of, random_action, random_actions
from golden_parts.digest import Case, Digest, Value, digest_of
from golden_parts.names import call, find

SEED = 7
BATCH = 4
STEPS = 150
"""Steps of a single environment and of each in a batch; several episodes of the shortened ones."""
SHORT: dict[str, dict[str, Any]] = {"resource_pool": {"episode_steps": 40}, "vcc": {"days": 3}}
"""Shorter episodes, so that ends, final observations and metrics are recorded, too."""
COMPONENTS = ("observations", "rewards", "ends", "masks", "infos")

POOL_VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("full length", "ResourcePool-10-v0", {"episode_steps": 500}),
    ("mask now", "ResourcePool-10-v0", {"mask": "now"}),
    ("mask now_on_time", "ResourcePool-10-v0", {"mask": "now_on_time"}),
    ("lookahead", "ResourcePool-10-v0", {"outlook": 24, "mask": "now_on_time"}),
    ("lookahead, forced skipped", "ResourcePool-10-v0", {"outlook": 12, "skip_forced": True}),
    ("lookahead, suspend", "ResourcePoolSuspend-10-v0", {"outlook": 24}),
    ("suspend, on time", "ResourcePoolSuspend-10-v0", {"mask": "now_on_time", "power": "markov"}),
    ("suspend, green", "ResourcePoolGreen-10-v0", {"suspend": True, "outlook": 12, "reward": "dense"}),
    ("forced skipped", "ResourcePool-10-v0", {"skip_forced": True, "offered_load": 0.4}),
    ("flat", "ResourcePool-10-v0", {"observation": "flat"}),
    ("float image", "ResourcePool-10-v0", {"image_dtype": "float32"}),
    ("info_jobs", "ResourcePool-10-v0", {"info_jobs": True}),
    ("late leave", "ResourcePool-10-v0", {"late_jobs": "leave", "offered_load": 1.6}),
    ("late stay", "ResourcePool-10-v0", {"late_jobs": "stay", "offered_load": 1.6}),
    ("placement now", "ResourcePool-10-v0", {"placement": "now"}),
    ("delays", "ResourcePool-10-v0", {"start_delay": 2, "end_delay": 1}),
    ("three types", "ResourcePool-10-v0", {"resource_types": 3, "prices": (1.0, 4.0, 0.5), "units": 6}),
    ("small rows", "ResourcePool-10-v0", {"horizon": 24, "ready_pool_size": 4, "context_rows": 30}),
    ("reward completion", "ResourcePool-10-v0", {"reward": "completion"}),
    (
        "reward weights",
        "ResourcePoolSuspend-10-v0",
        {"reward": {"executed": 0.2, "on_time": 0.7, "lateness": 0.1, "lateness_cap": 0.5, "potential": 0.3}},
    ),
    ("no lateness", "ResourcePoolSuspend-10-v0", {"lateness_in_reward": False, "shaping_gamma": 0.9}),
    ("cost waiting", "ResourcePool-10-v0", {"cost": "waiting"}),
    ("cost weighted", "ResourcePool-10-v0", {"cost": "weighted", "cost_weights": (0.01, 0.5)}),
    ("power constant", "ResourcePool-10-v0", {"power_level": 0.6}),
    ("power on_off", "ResourcePool-10-v0", {"power": "on_off", "power_low": 0.2, "on_steps": 5}),
    ("power markov", "ResourcePool-10-v0", {"power": "markov", "power_low": 0.3, "stay_on": 0.8}),
    ("power random", "ResourcePool-10-v0", {"power": "random", "power_level": 0.7}),
    ("power random, wrong forecast", "ResourcePool-10-v0", {"power": "random", "forecast_error": 0.2}),
    ("green, wrong forecast", "ResourcePoolGreen-10-v0", {"forecast_error": 0.3}),
    ("green, carbon, half hours", "ResourcePoolGreen-10-v0", {"carbon": 0.5, "step_hours": 0.5}),
    ("green, no battery", "ResourcePoolGreen-10-v0", {"site": {"battery": {"energy_kwh": 0.0}}}),
    ("workload bernoulli", "ResourcePool-10-v0", {"workload": "bernoulli"}),
    ("workload jobs_per_step", "ResourcePool-10-v0", {"workload": "jobs_per_step"}),
    ("workload lublin", "ResourcePool-10-v0", {"workload": "lublin"}),
    ("workload hpc", "ResourcePool-10-v0", {"workload": "hpc", "ready_pool_size": 32}),
)
VCC_VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("full length", "VCC-2019-v1", {"days": 30}),
    ("forecast oracle", "VCC-2019-v1", {"forecast": "oracle"}),
    ("forecast noisy", "VCC-2019-v1", {"forecast": "noisy", "forecast_noise": 0.1}),
    ("forecast persistence", "VCC-2019-v1", {"forecast": "persistence"}),
    ("v0, forecast sgip", "VCC-2019-v0", {"forecast": "sgip"}),
    ("split train", "VCC-v1", {"split": "train"}),
    ("split test", "DiscreteVCC-v1", {"split": "test"}),
    ("months", "VCC-v1", {"month": ("2020-02", "2021-08")}),
    ("region SCE", "VCC-2020-v1", {"region": "SCE"}),
    ("charge day_end", "VCC-2019-v1", {"charge": "day_end"}),
    ("slo page", "VCC-2019-v1", {"slo": "page", "charge": "day_end"}),
    ("no baseline", "VCC-2019-v1", {"reward_baseline": "none"}),
    ("constrained", "DiscreteVCC-2019-v1", {"constrained": True}),
    ("no eviction", "VCC-2019-v1", {"evict": False}),
    ("eviction loses hours", "VCC-2019-v1", {"eviction_loss_hours": 2}),
    ("page observation", "VCC-2019-v1", {"observation": "page"}),
    ("not normalized", "VCC-2019-v1", {"normalize": False}),
    ("cold start", "VCC-2019-v1", {"warm_start": False}),
    ("high load", "VCC-2019-v1", {"target_load": 0.8}),
    ("capacity", "VCC-2019-v1", {"capacity": 60.0}),
    ("days in order", "VCC-2019-v1", {"resample_days": False}),
    ("weights", "VCC-2019-v1", {"kw_per_unit": 0.4, "carbon_weight": 2.0, "slo_weight": 0.3}),
    ("other jobs", "VCC-2019-v1", {"workload_seed": 3, "utc_offset": -5}),
    ("five levels", "VCC-2019-v1", {"discrete_actions": 5}),
)


def cases() -> list[Case]:
    """Return all cases: every id, then the variants, each as one environment and as a batch."""
    import greendc

    ids = sorted(env_id for env_id in gym.registry if _family(env_id) in SHORT)
    chosen = [(env_id, env_id, SHORT[greendc.family(env_id) or ""]) for env_id in ids]
    for family, variants in (("resource_pool", POOL_VARIANTS), ("vcc", VCC_VARIANTS)):
        chosen += [(f"{env_id} {name}", env_id, {**SHORT[family], **o}) for name, env_id, o in variants]
    found = []
    for name, env_id, options in chosen:
        found.append(Case(f"{name}, single", partial(single, env_id, options)))
        found.append(Case(f"{name}, batch", partial(batch, env_id, options)))
    for env_id in ("ResourcePool-10-v0", "ResourcePoolGreen-10-v0", "ResourcePoolSuspend-10-v0"):
        found.append(Case(f"{env_id}, record", partial(episode_record, env_id)))
    return found


def _family(env_id: str) -> str | None:
    """Return the family of a registered id, ``None`` for other packages' environments."""
    import greendc

    return greendc.family(env_id)


def single(env_id: str, options: Mapping[str, Any], steps: int = STEPS) -> dict[str, Value]:
    """Return the digests of one environment, by component.

    :param env_id: id with a version
    :param options: keyword arguments of the environment
    :param steps: at least; the episode that is then running goes on to its end
    """
    import greendc  # noqa: F401  (registers the ids)

    env = call(gym.make, env_id, disable_env_checker=True, **options)
    digests = {name: Digest() for name in COMPONENTS}
    rng = np.random.default_rng(SEED)
    observation, info = env.reset(seed=SEED)
    digests["observations"].add(observation)
    digests["infos"].add(info)
    step = 0
    while True:
        mask = masks_of(env.unwrapped)
        digests["masks"].add(mask)
        action = random_action(env.action_space, mask, rng)
        observation, reward, terminated, truncated, info = env.step(action)
        digests["observations"].add(observation)
        digests["rewards"].add(reward)
        digests["ends"].add([terminated, truncated])
        digests["infos"].add(info)
        step += 1
        if terminated or truncated:
            if step >= steps:
                break
            observation, info = env.reset()
            digests["observations"].add(observation)
            digests["infos"].add(info)
    env.close()
    return {name: digest.value() for name, digest in digests.items()}


def batch(env_id: str, options: Mapping[str, Any], steps: int = STEPS) -> dict[str, Value]:
    """Return the digests of a batch of environments, by component.

    :param env_id: id with a version
    :param options: keyword arguments of the environment
    :param steps: of the batch; episodes that end are followed by the next ones
    """
    import greendc

    env = call(greendc.make_vec, env_id, BATCH, **options)
    digests = {name: Digest() for name in COMPONENTS}
    rng = np.random.default_rng(SEED)
    observations, infos = env.reset(seed=SEED)
    digests["observations"].add(observations)
    digests["infos"].add(infos)
    for _ in range(steps):
        masks = masks_of(env)
        digests["masks"].add(masks)
        actions = random_actions(env.single_action_space, masks, BATCH, rng)
        observations, rewards, terminated, truncated, infos = env.step(actions)
        digests["observations"].add(observations)
        digests["rewards"].add(rewards)
        digests["ends"].add([terminated, truncated])
        digests["infos"].add(infos)
    env.close()
    return {name: digest.value() for name, digest in digests.items()}


def episode_record(env_id: str) -> dict[str, Value]:
    """Return the digest of the record that ``EpisodeRecorder`` keeps of an episode."""
    env = find("EpisodeRecorder")(gym.make(env_id, disable_env_checker=True, **SHORT["resource_pool"]))
    rng = np.random.default_rng(SEED)
    env.reset(seed=SEED)
    truncated = False
    while not truncated:
        mask = masks_of(env.unwrapped)
        _, _, _, truncated, _ = env.step(random_action(env.action_space, mask, rng))
    record = env.finished
    names = ("cells", "powered", "waiting", "stored_kwh", "power_kw", "jobs", "late")
    return {name: digest_of(getattr(record, name)) for name in names}
