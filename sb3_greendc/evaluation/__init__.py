"""Policies of every kind judged on the same episodes: statistics, tables, plots, reports."""
