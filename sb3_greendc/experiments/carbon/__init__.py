"""Experiments where power is commanded: value against carbon, with rules, plans, learners and the bound."""
