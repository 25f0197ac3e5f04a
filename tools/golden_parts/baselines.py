"""Part ``baselines``: metrics of every heuristic, planner and bound on fixed seeds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from golden_parts.digest import Case, Value, digest_of, digest_of_numbers
from golden_parts.names import call, find

SEED = 50
EPISODES = 4
POOL = {"episode_steps": 100, "offered_load": 1.4}
"""More jobs than the pool can do, so that every order and dispatch differs from the others."""
PLANNED = {"episode_steps": 24}
"""Shorter episodes for planners, which search in every step."""
MONTH = {"days": 3}

DISPATCHES, SCOPES = ("skip", "block", "reserve", "easy"), ("ready", "queue")
PLANNERS: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("rollout", "ResourcePool-10-v0", {}, {"futures": 4, "depth": 20}),
    ("rollout", "ResourcePool-10-v0", {"mask": "now_on_time", "outlook": 12}, {"futures": 4, "depth": 12}),
    ("rollout", "ResourcePool-10-v0", {}, {"futures": 4, "depth": 12, "dispatch": "easy", "floor": 0.25}),
    ("rollout", "ResourcePool-10-v0", {"power": "markov"}, {"futures": 2, "depth": 10, "base": "hvf"}),
    ("rollout", "ResourcePoolSuspend-10-v0", {}, {"futures": 2, "depth": 10, "dispatch": "easy"}),
    ("rollout", "ResourcePoolGreen-10-v0", {"forecast_error": 0.2}, {"futures": 2, "depth": 10}),
    ("rollout", "ResourcePoolHPC-10-v0", {}, {"futures": 2, "depth": 10, "seed": 3}),
    ("plan", "ResourcePool-10-v0", {}, {"futures": 2, "depth": 10}),
    ("plan", "ResourcePoolGreen-10-v0", {}, {"futures": 1, "depth": 8, "every": 2, "threshold": 0.5}),
    ("foresight", "ResourcePool-10-v0", {}, {"futures": 2, "depth": 16, "told": 8}),
    ("foresight", "ResourcePool-10-v0", {}, {"futures": 2, "depth": 12, "told": 0, "floor": 0.25}),
)
"""Baseline, id, options of the environment, options of the baseline."""
VCC_OPTIONS: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("constant", "VCC-2019-v1", {}, {"level": 0.6}),
    ("moer_threshold", "VCC-2021-v1", {}, {"quantile": 0.65, "low": 0.45, "high": 0.9}),
    ("day_ahead", "VCC-2019-v1", {"forecast": "oracle"}, {"reserve": 0.1}),
    ("rolling", "VCC-2021-v1", {"forecast": "persistence"}, {"margin": 0}),
    ("best_known", "VCC-2019-v1", {"days": 2}, {"budget": 100}),
)


def cases() -> list[Case]:
    """Return all cases: a case a baseline with its options, then the bounds."""
    names = find("names")
    found = []
    planners = {name for name, *_ in PLANNERS}
    heuristics = [name for name in names("resource_pool", hindsight=True) if name not in planners]
    for name in heuristics:
        for dispatch in DISPATCHES:
            for scope in SCOPES:
                options = {"dispatch": dispatch, "scope": scope}
                for env_id in ("ResourcePool-10-v0", "ResourcePoolGreen-10-v0"):
                    found.append(_case(name, env_id, POOL, options))
        found.append(_case(name, "ResourcePoolSuspend-10-v0", POOL, {"preempt": True}))
        found.append(_case(name, "ResourcePoolSuspend-10-v0", POOL, {"dispatch": "easy", "preempt": True}))
        found.append(_case(name, "ResourcePoolHPC-10-v0", POOL, {"dispatch": "easy", "scope": "queue"}))
        found.append(_case(name, "ResourcePool-300-v0", POOL, {}))
    for name, env_id, settings, options in PLANNERS:
        found.append(_case(name, env_id, {**PLANNED, **settings}, options))
    for name in names("vcc", hindsight=True):
        for env_id in ("VCC-2019-v1", "DiscreteVCC-2021-v1", "VCC-2020-v0"):
            if name != "best_known":
                found.append(_case(name, env_id, MONTH, {}))
    for name, env_id, settings, options in VCC_OPTIONS:
        found.append(_case(name, env_id, {**MONTH, **settings}, options))
    return [*found, *_bounds()]


def _case(name: str, env_id: str, settings: Mapping[str, Any], options: Mapping[str, Any]) -> Case:
    said = " ".join(f"{key}={value}" for key, value in {**settings, **options}.items())
    return Case(f"{name} {env_id} {said}".rstrip(), partial(play, name, env_id, settings, options))


def play(name: str, env_id: str, settings: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Value]:
    """Return the metrics of a baseline's first episodes, and a digest of its actions.

    :param name: of the baseline
    :param env_id: id with a version
    :param settings: keyword arguments of the environment
    :param options: of the baseline
    """
    import greendc

    env = call(greendc.make_vec, env_id, EPISODES, **settings)
    observations, _ = env.reset(seed=SEED)
    policy = call(find("make_policy"), name, env, **options)
    metrics: list[dict[str, float] | None] = [None] * EPISODES
    actions = []
    while any(one is None for one in metrics):
        chosen, _ = policy.predict(observations)
        actions.append([row if one is None else -1 for row, one in zip(chosen, metrics, strict=True)])
        observations, _, _, truncated, infos = env.step(chosen)
        for i in range(EPISODES):
            if truncated[i] and metrics[i] is None:
                metrics[i] = infos["final_info"][i]["episode_metrics"]
    env.close()
    known = [one for one in metrics if one is not None]
    table = {key: [one[key] for one in known] for key in known[0]}
    return {"metrics": digest_of_numbers(table), "actions": digest_of(actions)}


# --- bounds --------------------------------------------------------------------------------------------


def _bounds() -> list[Case]:
    pools = (
        ("ResourcePool-10-v0", {"episode_steps": 60}),
        ("ResourcePoolSuspend-10-v0", {"episode_steps": 30}),
        ("ResourcePoolGreen-10-v0", {"episode_steps": 40}),
    )
    found = [Case(f"lp_bound {env_id}", partial(lp_bound, env_id, options)) for env_id, options in pools]
    for placement in ("contiguous", "capacity"):
        found.append(Case(f"clairvoyant_optimum {placement}", partial(clairvoyant_optimum, placement)))
    for env_id in ("VCC-2019-v1", "VCC-2021-v0"):
        found.append(Case(f"cost_bound {env_id}", partial(cost_bound, env_id)))
    found.append(Case("best_known search", best_known))
    return found


def _simulator(env_id: str, options: Mapping[str, Any], count: int = 2) -> Any:
    import greendc

    env = greendc.make_vec(env_id, count, **options)
    env.reset(seed=SEED)
    return env.simulator


def lp_bound(env_id: str, options: Mapping[str, Any]) -> dict[str, Value]:
    """Return the linear programme's bounds of two episodes of a pool."""
    simulator = _simulator(env_id, options)
    values = [find("lp_bound")(find("recorded_instance")(simulator, k)).value for k in range(2)]
    return {"bounds": digest_of_numbers({"bounds": values})}


def clairvoyant_optimum(placement: str) -> dict[str, Value]:
    """Return what CP-SAT proves of a small episode; one worker, so that it always does the same."""
    simulator = _simulator("ResourcePool-10-v0", {"episode_steps": 12, "units": 4, "horizon": 24}, 1)
    found = find("clairvoyant_optimum")(simulator, 0, placement, time_limit=60.0, workers=1)
    numbers = {"value": found.value, "bound": found.bound, "proved": found.proved}
    return {"optimum": digest_of_numbers(numbers)}


def cost_bound(env_id: str) -> dict[str, Value]:
    """Return the bound on the cost of two short months."""
    simulator = _simulator(env_id, MONTH)
    values = [find("cost_bound")(simulator, k).value for k in range(2)]
    return {"bounds": digest_of_numbers({"bounds": values})}


def best_known() -> dict[str, Value]:
    """Return the curve and the metrics that a short search finds."""
    curve, metrics = find("best_known")("VCC-2021-v1", SEED, budget=80, days=2)
    return {"curve": digest_of(curve), "metrics": digest_of_numbers(metrics)}
