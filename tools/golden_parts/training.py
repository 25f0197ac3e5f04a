"""Part ``training``: weights and actions after a short training of each algorithm."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from golden_parts.acting import random_actions
from golden_parts.datasets import advantages, month_data, pool_data
from golden_parts.digest import Case, Digest, Value, digest_of
from golden_parts.names import call, find
from golden_parts.policies import weights_of

SEED = 3
ENVS = 4
POOL = {"episode_steps": 40}
MONTH = {"days": 3, "split": "train"}
SETTINGS: dict[str, dict[str, Any]] = {
    "ResourcePool-10": POOL,
    "ResourcePoolSuspend-10": POOL,
    "VCC-2019": MONTH,
    "DiscreteVCC-2019": MONTH,
}
SMALL = {"net_arch": [16]}
ROLLOUT = {"n_steps": 32, "policy_kwargs": SMALL}
"""Of on-policy algorithms: two rollouts of 128 steps."""
PPO_LIKE = {**ROLLOUT, "batch_size": 64, "n_epochs": 2}
ON_POLICY_STEPS = 2 * 32 * ENVS
REPLAY = {"buffer_size": 2000, "learning_starts": 64, "batch_size": 32, "policy_kwargs": SMALL}
OFF_POLICY_STEPS = 64 + 40 * ENVS
GRADIENT_STEPS = 30
JOB_SET = {"features_extractor_kwargs": {"job_dim": 16, "context_dim": 16}, "net_arch": [16]}

CRR_OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "exp": {"weight_mode": "exp", "beta": 0.5, "max_weight": 10.0},
    "exp, raw": {"weight_mode": "exp", "normalize_adv": False, "self_normalize": True},
    "cloning": {"weight_mode": "bc"},
    "mean": {"value_mode": "mean", "combine": "mean", "critic_loss": "huber"},
    "max": {"weight_mode": "exp", "value_mode": "max", "target_actor": False},
    "max_sample": {"value_mode": "max_sample", "n_value_samples": 8, "target_update_interval": 3},
    "conservative": {"cql_alpha": 0.5, "reward_scale": 0.2},
    "preset rare": {"preset": "rare"},
    "source weights": {"source_weights": [3.0, 1.0]},
}
BOX_CRR = ("as it is", "exp", "cloning", "max_sample", "conservative")
SAC_OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "hard critic": {"soft_critic": False, "target_entropy_ratio": 0.3, "target_entropy_ratio_final": 0.02},
    "three steps": {"n_steps": 3, "combine": "mean", "critic_loss": "huber"},
    "clipped": {"q_clip": 0.5},
    "penalty": {"entropy_penalty": 0.1, "ent_coef": 0.05, "actor_trains_encoder": True, "reward_scale": 0.5},
    "preset rare": {"preset": "rare"},
    "warm up": {"actor_starts": 120, "gradient_steps": 2, "target_update_interval": 4, "n_critics": 1},
}


def cases() -> list[Case]:
    """Return all cases."""
    found = [Case(f"vec_env {env_id}", partial(vec_env, env_id)) for env_id in SETTINGS]
    return [*found, *_on_policy(), *_off_policy(), *_constrained(), *_offline(), *_supervised()]


def _env(env_id: str, **options: Any) -> Any:
    return call(find("make_vec_env"), env_id, ENVS, seed=SEED, **{**SETTINGS[env_id], **options})


def vec_env(env_id: str, steps: int = 100) -> dict[str, Value]:
    """Return the digests of what Stable-Baselines3 sees of a batch, by component."""
    env = _env(env_id)
    digests = {name: Digest() for name in ("observations", "rewards", "dones", "infos")}
    rng = np.random.default_rng(SEED)
    digests["observations"].add(env.reset())
    masked = env_id.startswith("ResourcePool")
    for _ in range(steps):
        masks = np.stack(env.env_method("action_masks")) if masked else None
        found = env.step(random_actions(env.action_space, masks, ENVS, rng))
        for digest, value in zip(digests.values(), found, strict=True):
            digest.add(value)
    return {name: digest.value() for name, digest in digests.items()}


def judged(model: Any, env: Any) -> dict[str, Value]:
    """Return the digests of a model's weights, and of its actions in an environment.

    :param model: trained
    :param env: a ``VecEnv`` of its spaces, reset here
    """
    env.seed(SEED + 1)
    observations = env.reset()
    takes_masks = "Maskable" in type(model).__name__
    states, actions = None, []
    starts = np.ones(env.num_envs, dtype=np.bool_)
    for _ in range(20):
        more: dict[str, Any] = {}
        if takes_masks:
            more = {"action_masks": np.stack(env.env_method("action_masks"))}
        if "Recurrent" in type(model).__name__:
            more = {"state": states, "episode_start": starts}
        chosen, states = model.predict(observations, deterministic=True, **more)
        actions.append(chosen)
        observations, _, starts, _ = env.step(chosen)
    return {"weights": weights_of(model), "actions": digest_of(actions)}


def train(
    cls: Callable[[], Any],
    policy: Any,
    env_id: str,
    steps: int,
    options: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    callback: Callable[[], Any] | None = None,
) -> dict[str, Value]:
    """Train a new model for some steps and judge it.

    :param cls: gives the algorithm
    :param policy: name of the policy, or a function that gives its class
    :param env_id: id of the environment
    :param steps: to train
    :param options: of the algorithm
    :param settings: keyword arguments of the environment
    :param callback: gives a callback
    """
    env = _env(env_id, **(settings or {}))
    chosen = policy if isinstance(policy, str) else policy()
    # Stable-Baselines3 writes into the dict of a policy's arguments.
    model = call(cls(), chosen, env, seed=SEED, device="cpu", **copy.deepcopy(dict(options)))
    model.learn(steps, callback=callback() if callback else None)
    return judged(model, _env(env_id, **(settings or {})))


def _sb3(name: str) -> Callable[[], Any]:
    """Return a function that gives an algorithm of Stable-Baselines3 or sb3-contrib."""

    def give() -> Any:
        import sb3_contrib
        import stable_baselines3

        return getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)

    return give


def _ours(name: str) -> Callable[[], Any]:
    return partial(find, name)


def _extractors(name: str) -> Callable[[], Any]:
    """Return a function that gives a policy or an extractor by the name of its class."""

    def give() -> Any:
        from sb3_greendc import extractors

        return getattr(extractors, name)

    return give


def _with_extractor(name: str) -> dict[str, Any]:
    return {"policy_kwargs": {"features_extractor_class": _extractors(name)(), **SMALL}}


def _on_policy() -> list[Case]:
    ppo, a2c, maskable = _sb3("PPO"), _sb3("A2C"), _sb3("MaskablePPO")
    ready, steps = {"mask": "now_on_time", "outlook": 12}, ON_POLICY_STEPS
    by_time = partial(lambda: find("DiscountByTime")())
    job_set, masked = _extractors("JobSetPolicy"), _extractors("MaskedActorCriticPolicy")
    found = [
        Case("PPO VCC", partial(train, ppo, "MlpPolicy", "VCC-2019", steps, PPO_LIKE)),
        Case("PPO DiscreteVCC", partial(train, ppo, "MlpPolicy", "DiscreteVCC-2019", steps, PPO_LIKE)),
        Case(
            "PPO pool, job set",
            partial(train, ppo, job_set, "ResourcePool-10", steps, {**PPO_LIKE, "policy_kwargs": JOB_SET}),
        ),
        Case(
            "PPO pool, discounts by time",
            partial(train, ppo, masked, "ResourcePoolSuspend-10", steps, PPO_LIKE, None, by_time),
        ),
        Case("A2C VCC", partial(train, a2c, "MlpPolicy", "VCC-2019", steps, ROLLOUT)),
        Case(
            "A2C pool, job set, skipping",
            partial(
                train,
                a2c,
                job_set,
                "ResourcePoolSuspend-10",
                steps,
                {**ROLLOUT, "policy_kwargs": JOB_SET},
                {**ready, "skip_forced": True},
                by_time,
            ),
        ),
        Case(
            "MaskablePPO pool",
            partial(train, maskable, "MultiInputPolicy", "ResourcePool-10", steps, PPO_LIKE),
        ),
        Case(
            "MaskablePPO pool, job set, lookahead",
            partial(
                train,
                maskable,
                _extractors("MaskableJobSetPolicy"),
                "ResourcePoolSuspend-10",
                steps,
                {**PPO_LIKE, "policy_kwargs": JOB_SET},
                ready,
            ),
        ),
    ]
    for name in ("MaskedCombined", "ResourceImage", "ResourceRows", "JobMatrix"):
        found.append(
            Case(f"A2C pool, {name}", partial(_a2c_with, f"{name}Extractor", masked, "ResourcePool-10"))
        )
    found.append(Case("A2C VCC, Forecast", partial(_a2c_with, "ForecastExtractor", "MlpPolicy", "VCC-2019")))
    return found


def _a2c_with(extractor: str, policy: Any, env_id: str) -> dict[str, Value]:
    options = {**ROLLOUT, **_with_extractor(extractor)}
    return train(_sb3("A2C"), policy, env_id, ON_POLICY_STEPS // 2, options)


def _off_policy() -> list[Case]:
    sac, steps = _ours("DiscreteSAC"), OFF_POLICY_STEPS
    dqn = {**REPLAY, "policy_kwargs": JOB_SET, "target_update_interval": 60}
    found = [
        Case("DQN VCC", partial(train, _sb3("DQN"), "MlpPolicy", "DiscreteVCC-2019", steps, REPLAY)),
        Case(
            "DQN pool",
            partial(train, _sb3("DQN"), _extractors("JobSetDQNPolicy"), "ResourcePool-10", steps, dqn),
        ),
        Case("SAC VCC", partial(train, _sb3("SAC"), "MlpPolicy", "VCC-2019", steps, REPLAY)),
        Case("DiscreteSAC VCC", partial(train, sac, "MlpPolicy", "DiscreteVCC-2019", steps, REPLAY)),
        Case("DiscreteSAC pool, job set", _sac_job_set),
    ]
    for name, options in SAC_OPTIONS.items():
        chosen = {**REPLAY, **options}
        found.append(
            Case(
                f"DiscreteSAC pool, {name}",
                partial(train, sac, "MultiInputPolicy", "ResourcePool-10", steps, chosen),
            )
        )
    return found


def _sac_job_set() -> dict[str, Value]:
    kwargs = {"features_extractor_class": _extractors("JobSetExtractor")(), **JOB_SET}
    settings = {"mask": "now_on_time", "skip_forced": True}
    options = {**REPLAY, "policy_kwargs": kwargs}
    return train(
        _ours("DiscreteSAC"), "MultiInputPolicy", "ResourcePool-10", OFF_POLICY_STEPS, options, settings
    )


def _constrained() -> list[Case]:
    pid, recurrent, steps = _ours("PIDLagrangianPPO"), _ours("RecurrentPIDLagrangianPPO"), ON_POLICY_STEPS
    month = {"constrained": True}
    pool = {"mask": "now", "cost": "weighted", "cost_weights": [0.01, 0.0]}
    limited = {**PPO_LIKE, "cost_limit": 0.1}
    tuned = {**limited, "ki": 0.5, "kp": 0.1, "kd": 0.1, "init": 2.0, "lambda_max": 25, "cost_vf_coef": 0.1}
    wide = {**limited, "policy_kwargs": {"lstm_hidden_size": 16, **SMALL}}
    return [
        Case("PIDLagrangianPPO VCC", partial(train, pid, "MlpPolicy", "VCC-2019", steps, limited, month)),
        Case(
            "PIDLagrangianPPO DiscreteVCC",
            partial(train, pid, "MlpPolicy", "DiscreteVCC-2019", steps, tuned, month),
        ),
        Case(
            "PIDLagrangianPPO pool",
            partial(train, pid, "MultiInputPolicy", "ResourcePool-10", steps, limited, pool),
        ),
        Case(
            "PIDLagrangianPPO pool, job set",
            partial(
                train,
                pid,
                "CostJobSetPolicy",
                "ResourcePool-10",
                steps,
                {**tuned, "policy_kwargs": JOB_SET},
                pool,
            ),
        ),
        Case(
            "RecurrentPIDLagrangianPPO VCC",
            partial(train, recurrent, "MlpLstmPolicy", "VCC-2019", steps, wide, month),
        ),
        Case(
            "RecurrentPIDLagrangianPPO pool",
            partial(train, recurrent, "MultiInputLstmPolicy", "ResourcePool-10", steps, wide, pool),
        ),
        Case(
            "RecurrentPIDLagrangianPPO pool, CoCoRL's policy",
            partial(
                train,
                recurrent,
                "CocorlPolicy",
                "ResourcePool-10",
                steps,
                {**limited, "policy_kwargs": {"lstm_hidden_size": 16}},
                pool,
            ),
        ),
    ]


def _offline() -> list[Case]:
    found = [
        Case(f"CRR pool, {name}", partial(crr, "pool", options)) for name, options in CRR_OPTIONS.items()
    ]
    found += [Case(f"CRR VCC, {name}", partial(crr, "month", CRR_OPTIONS[name])) for name in BOX_CRR]
    found += [Case(f"CRR {name}, then online", partial(crr_online, name)) for name in ("pool", "month")]
    return [*found, Case("CRR pool, then DiscreteSAC", crr_to_sac), Case("CRR saved and loaded", crr_loaded)]


def _crr(kind: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return a CRR model that has learned from data, and an environment of its spaces."""
    data = pool_data() if kind == "pool" else month_data()
    env = _env("ResourcePool-10" if kind == "pool" else "VCC-2019")
    policy = "MultiInputPolicy" if kind == "pool" else "MlpPolicy"
    small = copy.deepcopy({"batch_size": 64, "policy_kwargs": SMALL, **options})
    model = find("CRR")(policy, dataset=data, seed=SEED, device="cpu", **small)
    model.learn(GRADIENT_STEPS)
    return model, env


def crr(kind: str, options: Mapping[str, Any]) -> dict[str, Value]:
    """Train on data and judge.

    :param kind: ``"pool"`` (discrete actions) or ``"month"`` (``Box``)
    :param options: of the algorithm
    """
    return judged(*_crr(kind, options))


def crr_online(kind: str) -> dict[str, Value]:
    """Train on data, then in an environment, and judge."""
    model, env = _crr(kind, {})
    model.finetune(env, 30 * ENVS, learning_starts=40, offline_fraction=0.25)
    return judged(model, env)


def crr_to_sac() -> dict[str, Value]:
    """Train on data, hand over to DiscreteSAC, train that, and judge it."""
    model, env = _crr("pool", {})
    learner = model.to_discrete_sac(env, learning_starts=40, batch_size=32, buffer_size=1000)
    learner.set_random_seed(SEED)
    learner.learn(30 * ENVS)
    return judged(learner, _env("ResourcePool-10"))


def crr_loaded() -> dict[str, Value]:
    """Train on data, save, load, and judge what was loaded."""
    model, env = _crr("pool", {})
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.zip")
        return judged(type(model).load(f"{folder}/model.zip", device="cpu"), env)


def _supervised() -> list[Case]:
    return [
        Case("cloning pool", partial(cloned, "pool")),
        Case("cloning pool, mlp", partial(cloned, "pool", "mlp")),
        Case("cloning VCC", partial(cloned, "month")),
        Case("distillation", distilled),
    ]


def cloned(kind: str, policy: str = "auto") -> dict[str, Value]:
    """Clone what data do, judge the clone, and train it on with PPO.

    :param kind: ``"pool"`` or ``"month"``
    :param policy: of the clone
    """
    data = pool_data() if kind == "pool" else month_data()
    clone = find("behavioral_clone")(data, policy, n_epochs=2, batch_size=64, seed=SEED)
    env = _env("ResourcePool-10" if kind == "pool" else "VCC-2019")
    found = {**judged(clone.model, env), "history": digest_of(clone.history.to_csv(index=False))}
    model = clone.attach(env, n_steps=32, batch_size=64, n_epochs=1)
    model.set_random_seed(SEED)
    model.learn(32 * ENVS)
    return {**found, **{f"{name}, trained on": value for name, value in judged(model, env).items()}}


def distilled() -> dict[str, Value]:
    """Distill rollouts into a network, judge it, and judge it in a pool of another size."""
    clone = find("distill")(advantages(), n_epochs=2, batch_size=64, seed=SEED)
    settings = {"mask": "now_on_time", "outlook": 12}
    env = _env("ResourcePool-10", **settings)
    larger = _env("ResourcePool-10", units=20, ready_pool_size=16, **settings)
    resized = find("resize")(clone.model, larger.observation_space, larger.action_space)
    history = digest_of(clone.history.to_csv(index=False))
    sized = {f"{name}, resized": value for name, value in judged(resized, larger).items()}
    return {**judged(clone.model, env), "history": history, **sized}
