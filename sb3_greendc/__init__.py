"""Schedulers for datacenters on renewable power and a changing grid, learned with Stable-Baselines3."""

from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.pid_ppo import PIDController, PIDLagrangianPPO
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

__all__ = ["DiscreteSAC", "PIDController", "PIDLagrangianPPO", "RecurrentPIDLagrangianPPO"]
