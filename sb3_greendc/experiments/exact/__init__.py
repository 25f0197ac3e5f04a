"""Tiny pools whose optimum is known: what share of it every kind of policy has."""
