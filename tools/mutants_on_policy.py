"""Mutations of PID-PPO, costs, discounts by time, and behavioral cloning."""

from __future__ import annotations

from mutants import Mutation, mutations

ON_POLICY: tuple[Mutation, ...] = (
    *mutations(
        "sb3_greendc/pid_ppo/advantages.py",
        ("tests/sb3_greendc/pid_ppo/test_costs.py",),
        (
            "pid-costs-are-wanted",
            "(advantages - lagrange_multiplier * cost_advantages)",
            "(advantages + lagrange_multiplier * cost_advantages)",
        ),
        ("pid-advantages-grow-with-the-multiplier", " / (1.0 + lagrange_multiplier)", " / 1.0"),
        (
            "pid-cost-of-the-next-episode",
            "decays[step] * going_on[step] * advantage",
            "decays[step] * advantage",
        ),
        (
            "pid-cost-value-of-the-next-episode",
            "costs + discounts * next_values * going_on - cost_values",
            "costs + discounts * next_values - cost_values",
        ),
        (
            "pid-cost-decay-by-decisions",
            "(gamma * gae_lambda) ** steps",
            "(gamma * gae_lambda) ** np.ones_like(steps)",
        ),
        (
            "pid-cost-discount-by-decisions",
            "discounts, decays = gamma**steps,",
            "discounts, decays = gamma * np.ones_like(steps),",
        ),
        (
            "pid-safe-policies-are-blown-up",
            "max(float(cost_advantages.std(ddof=1)), COST_STD_FLOOR)",
            "float(cost_advantages.std(ddof=1))",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/buffers.py",
        ("tests/sb3_greendc/pid_ppo/test_lagrangian_rollouts.py::test_cost_values_and_returns",),
        (
            "pid-time-limit-value-not-discounted",
            "costs[step, index] += gamma * value",
            "costs[step, index] += value",
        ),
        ("pid-every-end-as-a-time-limit", 'infos[index].get("TimeLimit.truncated", False)', "True"),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/buffers.py",
        ("tests/sb3_greendc/pid_ppo/test_lagrangian_rollouts.py::test_last_observations_are_copied",),
        ("pid-last-observation-not-copied", "int(index), deepcopy(last_obs)", "int(index), last_obs"),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/buffers.py",
        ("tests/sb3_greendc/pid_ppo/test_lagrangian_rollouts.py::test_minibatches_keep_rows_together",),
        (
            "pid-costs-not-flattened",
            "self.cost_returns = self.swap_and_flatten(self.cost_returns)",
            "self.cost_returns = self.cost_returns.reshape(-1, 1)",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/lagrangian.py",
        ("tests/sb3_greendc/pid_ppo/test_pid_lagrangian_ppo.py::test_save_load_resume",),
        (
            "pid-saved-without-its-controller",
            'return [*state_dicts, "controller"], variables',
            "return state_dicts, variables",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/lagrangian.py",
        ("tests/sb3_greendc/pid_ppo/test_pid_lagrangian_ppo.py::test_without_limit_it_is_ppo",),
        (
            "pid-entropy-is-punished",
            "loss = policy_loss + self.ent_coef * entropy_loss",
            "loss = policy_loss - self.ent_coef * entropy_loss",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/lagrangian.py",
        ("tests/sb3_greendc/pid_ppo/test_lagrangian_rollouts.py::test_controller_sees_whole_episodes",),
        (
            "pid-multiplier-never-moves",
            "self.controller.update(self.episode_costs.take_mean(self.min_episodes))",
            "self.episode_costs.take_mean(self.min_episodes)",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/lagrangian.py",
        ("tests/sb3_greendc/pid_ppo/test_pid_lagrangian_ppo.py::test_advantage_modes",),
        (
            "pid-reward-advantages-alone",
            "buffer.combine_advantages(self.lagrange_multiplier, self.adv_norm)",
            "buffer.combine_advantages(0.0, self.adv_norm)",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/lagrangian.py",
        ("tests/sb3_greendc/pid_ppo/test_lagrangian_rollouts.py::test_cost_values_and_returns",),
        (
            "pid-cost-gamma-of-the-reward",
            "last_values, timeout_values, self._last_episode_starts, gamma, gae_lambda",
            "last_values, timeout_values, self._last_episode_starts, self.gamma, gae_lambda",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/lagrangian.py",
        ("tests/sb3_greendc/pid_ppo/test_clipping_and_state.py",),
        (
            "pid-not-clipped",
            "policy_loss = -th.min(advantages * ratio, advantages * clipped_ratio)",
            "policy_loss = -th.min(advantages * ratio, advantages * ratio)",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/controller.py",
        ("tests/sb3_greendc/pid_ppo/test_controller.py",),
        (
            "pid-integral-winds-up",
            "self._clip(self._integral + self.ki * error)",
            "(self._integral + self.ki * error)",
        ),
        (
            "pid-falling-costs-count",
            "max(0.0, self._cost - self._history[0])",
            "self._cost - self._history[0]",
        ),
        (
            "pid-derivative-of-one-update",
            "max(0.0, self._cost - self._history[0])",
            "max(0.0, self._cost - self._history[-1])",
        ),
        (
            "pid-smoothing-turned-round",
            "self.p_ema * self._error + (1.0 - self.p_ema) * error",
            "(1.0 - self.p_ema) * self._error + self.p_ema * error",
        ),
        (
            "pid-error-of-the-wrong-sign",
            "error = (episode_cost - self.cost_limit) / self.scale",
            "error = (self.cost_limit - episode_cost) / self.scale",
        ),
        (
            "pid-multiplier-not-bounded",
            "self._multiplier = self._clip(sum(self.terms))",
            "self._multiplier = max(sum(self.terms), 0.0)",
        ),
    ),
    *mutations(
        "sb3_greendc/pid_ppo/controller.py",
        ("tests/sb3_greendc/pid_ppo/test_clipping_and_state.py",),
        (
            "pid-integral-not-restored",
            'self._integral = float(state["integral"])',
            'self._integral = float(current["integral"])',
        ),
        ("pid-history-not-restored", 'for cost in state["history"])', 'for cost in current["history"])'),
    ),
    *mutations(
        "sb3_greendc/core/costs.py",
        ("tests/sb3_greendc/pid_ppo/test_costs.py",),
        (
            "costs-of-all-episodes-together",
            "self.running[index] = 0.0",
            "self.running[index] = self.running[index]",
        ),
    ),
    *mutations(
        "sb3_greendc/core/discounting.py",
        ("tests/sb3_greendc/core/test_discounting.py",),
        (
            "time-discount-by-decisions",
            "discounts = np.float32(gamma) ** steps",
            "discounts = np.float32(gamma) ** np.ones_like(steps)",
        ),
        (
            "time-decay-by-decisions",
            "decays = np.float32(gamma * gae_lambda) ** steps * goes_on",
            "decays = np.float32(gamma * gae_lambda) ** np.ones_like(steps) * goes_on",
        ),
        (
            "time-advantage-of-the-next-episode",
            "decays = np.float32(gamma * gae_lambda) ** steps * goes_on",
            "decays = np.float32(gamma * gae_lambda) ** steps",
        ),
        (
            "time-episodes-end-a-step-too-early",
            "goes_on[:-1] = 1.0 - episode_starts[1:]",
            "goes_on[:-1] = 1.0 - episode_starts[:-1]",
        ),
        ("time-costs-by-decisions", "buffer.time_steps = steps", "buffer.time_steps = 1.0"),
        (
            "time-returns-are-old",
            "buffer.returns = buffer.advantages + buffer.values",
            "buffer.returns = buffer.returns + 0.0",
        ),
    ),
    *mutations(
        "sb3_greendc/bc/batches.py",
        ("tests/sb3_greendc/bc/test_behavioral_cloning.py",),
        (
            "split-validation-in-training",
            "return everything[~validation], everything[validation]",
            "return everything, everything[validation]",
        ),
        (
            "split-by-transitions",
            "validation = np.isin(data.episode_id, np.concatenate(held_out))",
            "validation = rng.random(len(data)) < fraction",
        ),
    ),
    *mutations(
        "sb3_greendc/bc/loss.py",
        ("tests/sb3_greendc/bc/test_behavioral_cloning.py",),
        (
            "bc-without-mask",
            "log_pi = masked_log_softmax(action_logits(policy, obs), action_mask_of(obs))",
            "log_pi = masked_log_softmax(action_logits(policy, obs), None)",
        ),
        (
            "bc-likeliest-without-mask",
            "return masked_log_softmax(action_logits(policy, obs), action_mask_of(obs)).argmax(dim=1)",
            "return masked_log_softmax(action_logits(policy, obs), None).argmax(dim=1)",
        ),
        ("bc-punishes-entropy", "-self.ent_weight * entropy.mean()", "self.ent_weight * entropy.mean()"),
    ),
    *mutations(
        "sb3_greendc/bc/cloning.py",
        ("tests/sb3_greendc/bc/test_behavioral_cloning.py",),
        ("bc-worst-epoch-is-kept", "loss < self._least", "loss > self._least"),
    ),
)
