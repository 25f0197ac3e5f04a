"""PID-Lagrangian PPO: reward under a limit on cost."""

from sb3_greendc.pid_ppo.advantages import combine_advantages, cost_gae
from sb3_greendc.pid_ppo.controller import PRESETS, PIDController
from sb3_greendc.pid_ppo.job_set import CostJobSetPolicy
from sb3_greendc.pid_ppo.pid_ppo import PIDLagrangianPPO
from sb3_greendc.pid_ppo.policies import CnnPolicy, MlpPolicy, MultiInputPolicy

__all__ = [
    "PRESETS",
    "CnnPolicy",
    "CostJobSetPolicy",
    "MlpPolicy",
    "MultiInputPolicy",
    "PIDController",
    "PIDLagrangianPPO",
    "combine_advantages",
    "cost_gae",
]
