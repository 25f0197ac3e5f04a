"""Experiments of CoCoRL (Venkataswamy, "Job Scheduling in Datacenters using Constraint Controlled RL")."""
