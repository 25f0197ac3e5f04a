"""Experiments of SC20 (Venkataswamy and Grimshaw, MLCS workshop 2020).

Ten units, jobs that arrive in a step with some probability (at 100 %, one in each step, which is 2.95 times
what the pool can do), the dense reward, and suspension as an action.
"""
