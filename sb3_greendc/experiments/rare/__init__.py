"""Experiments of RARE (Venkataswamy, Grigsby, Grimshaw, Qi, JSSPP 2022)."""
