"""Schedulers for datacenters on renewable power and a changing grid, learned with Stable-Baselines3."""
