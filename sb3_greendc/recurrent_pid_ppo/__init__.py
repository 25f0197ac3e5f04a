"""PID-Lagrangian PPO with an LSTM."""

from sb3_greendc.recurrent_pid_ppo.policies import (
    CnnLstmPolicy,
    CocorlPolicy,
    MlpLstmPolicy,
    MultiInputLstmPolicy,
)
from sb3_greendc.recurrent_pid_ppo.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

__all__ = [
    "CnnLstmPolicy",
    "CocorlPolicy",
    "MlpLstmPolicy",
    "MultiInputLstmPolicy",
    "RecurrentPIDLagrangianPPO",
]
