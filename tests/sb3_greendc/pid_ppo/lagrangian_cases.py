"""What tests of the constrained algorithms share."""

from __future__ import annotations

from typing import Any

import torch as th

from sb3_greendc.pid_ppo import PIDLagrangianPPO
from sb3_greendc.pid_ppo.lagrangian import PIDLagrangian
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 16, "n_epochs": 2, "seed": 0, "device": "cpu"}
LSTM: dict[str, Any] = {"policy_kwargs": {"lstm_hidden_size": 8}}

FORMS = ["feed-forward", "recurrent"]


def build(form: str, env: Any, **kwargs: Any) -> PIDLagrangian:
    if form == "recurrent":
        return RecurrentPIDLagrangianPPO(
            "MlpLstmPolicy", env, **{"cost_limit": 4.0, **SMALL, **LSTM, **kwargs}
        )
    return PIDLagrangianPPO("MlpPolicy", env, **{"cost_limit": 4.0, **SMALL, **kwargs})


def weights(model: Any) -> dict[str, th.Tensor]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def same_weights(one: Any, other: Any) -> bool:
    ones, others = weights(one), weights(other)
    return ones.keys() == others.keys() and all(th.equal(ones[name], others[name]) for name in ones)
