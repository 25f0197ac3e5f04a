"""From the parameters of a trial to hyperparameters as ``zoo_hparams`` has them, and to a constructor.

The converter is a function of stored values alone, so that any trial of any study can be trained again,
and what ``--write-zoo`` writes is what was tried, to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sb3_greendc.core.expressions import read_mapping

_SETTING_OF = {
    "activation": "policy_kwargs",
    "depth": "policy_kwargs",
    "ent_coef_init": "ent_coef",
    "learning_rate_schedule": "learning_rate",
    "log_std_init": "policy_kwargs",
    "lstm_hidden_size": "policy_kwargs",
    "n_minibatches": "batch_size",
    "n_quantiles": "policy_kwargs",
    "network": "policy_kwargs",
    "one_minus_gae_lambda": "gae_lambda",
    "one_minus_gamma": "gamma",
    "width": "policy_kwargs",
}
"""The hyperparameter that a sampled parameter decides, where it is not the one of its own name.
``limit_share`` decides none: it is a share of ``cost_limit``, which stays the user's."""

_JOB_SET_POLICIES = {
    "a2c": "JobSetPolicy",
    "dqn": "JobSetDQNPolicy",
    "maskable_ppo": "MaskableJobSetPolicy",
    "ppo": "JobSetPolicy",
}
_MASKED_POLICIES = {"a2c": "MaskedActorCriticPolicy", "ppo": "MaskedActorCriticPolicy"}
_RECURRENT = ("recurrent_pid_ppo", "recurrent_ppo")


def setting_of(parameter: str) -> str:
    """Return the hyperparameter that a sampled parameter decides."""
    return _SETTING_OF.get(parameter, parameter)


def to_settings(algorithm: str, parameters: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a trial, plain values in the format of ``zoo_hparams``.

    :param algorithm: name of the algorithm
    :param parameters: what was sampled; parameters that are missing leave the base as it is
    :param base: hyperparameters where nothing is sampled
    """
    settings = dict(base)
    policy_kwargs = _plain(base.get("policy_kwargs") or {})
    for name, value in parameters.items():
        match name:
            case "learning_rate":
                falls = parameters.get("learning_rate_schedule", "linear") == "linear"
                settings[name] = f"lin_{_short(value)}" if falls else _short(value)
            case "one_minus_gamma" | "one_minus_gae_lambda":
                settings[setting_of(name)] = round(1.0 - _short(value), 10)
            case "ent_coef_init":
                settings["ent_coef"] = f"auto_{_short(value)}"
            case "limit_share":
                settings["cost_limit"] = _short(value * base["cost_limit"])
            case "log_std_init" | "lstm_hidden_size" | "n_quantiles":
                policy_kwargs[name] = _short(value)
            case "activation":
                policy_kwargs["activation_fn"] = value
            case "learning_rate_schedule" | "n_minibatches" | "network" | "width" | "depth":
                pass  # read together with others
            case _:
                settings[name] = _short(value)
    if "n_minibatches" in parameters:
        rollout = settings["n_steps"] * settings.get("n_envs", 1)
        settings["batch_size"] = max(2, rollout // parameters["n_minibatches"])
    if "network" in parameters:
        settings["policy"] = _policy(algorithm, parameters["network"])
        policy_kwargs |= _pool_network(algorithm, parameters["network"], parameters["width"])
    elif "width" in parameters:
        policy_kwargs["net_arch"] = [parameters["width"]] * parameters["depth"]
    if policy_kwargs:
        settings["policy_kwargs"] = policy_kwargs
    return settings


def _short(value: Any) -> Any:
    """Round floats to four significant digits, so that what is written is what ran."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _plain(policy_kwargs: object) -> dict[str, Any]:
    """Return ``policy_kwargs`` with classes as names; rl-zoo3's ``dict(...)`` is read too."""
    mapping = read_mapping(policy_kwargs)
    return {key: value.__name__ if isinstance(value, type) else value for key, value in mapping.items()}


def _policy(algorithm: str, network: str) -> str:
    policies = _JOB_SET_POLICIES if network == "job_set" else _MASKED_POLICIES
    return policies.get(algorithm, "MlpLstmPolicy" if algorithm in _RECURRENT else "MlpPolicy")


def _pool_network(algorithm: str, network: str, width: int) -> dict[str, Any]:
    if network == "job_set":
        sizes = {"features_extractor_kwargs": {"job_dim": width, "context_dim": width}}
        return sizes if algorithm in _JOB_SET_POLICIES else {"features_extractor": "job_set", **sizes}
    trunk: dict[str, Any] = {"features_extractor": network, "net_arch": [width, width]}
    if network == "resource_rows":
        trunk["features_extractor_kwargs"] = {"width": width}
    return trunk
