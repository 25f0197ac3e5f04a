"""Mutations of CRR, DiscreteSAC, and what they share: masks, targets, entropy, discounts."""

from __future__ import annotations

from mutants import Mutation, mutations

OFF_POLICY: tuple[Mutation, ...] = (
    *mutations(
        "sb3_greendc/crr/discrete_updates.py",
        ("tests/sb3_greendc/crr/test_updates.py",),
        (
            "crr-target-mask-of-the-present-state",
            "action_mask_of(batch.next_observations)",
            "action_mask_of(batch.observations)",
        ),
        (
            "crr-target-without-mask",
            "masked_log_softmax(logits, action_mask_of(batch.next_observations))",
            "masked_log_softmax(logits, None)",
        ),
        (
            "crr-actor-without-mask",
            "log_pi = masked_log_softmax(logits, mask)",
            "log_pi = masked_log_softmax(logits, None)",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/discrete_updates.py",
        ("tests/sb3_greendc/crr/test_update_masks.py",),
        (
            "crr-cloning-without-mask",
            "policy.logits(policy.encode(batch.observations)), mask)",
            "policy.logits(policy.encode(batch.observations)), None)",
        ),
        ("crr-value-without-mask", "state_value(values, log_pi, mask,", "state_value(values, log_pi, None,"),
        (
            "crr-conservative-without-mask",
            "conservative_loss(q, q_taken, mask)",
            "conservative_loss(q, q_taken, None)",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/discrete_updates.py",
        ("tests/sb3_greendc/crr/test_updates.py",),
        (
            "crr-advantage-of-the-sum",
            "combine_critics(q_taken, config.combine) - state_values",
            "combine_critics(q_taken, config.combine) + state_values",
        ),
        (
            "crr-target-by-the-other-rule",
            "(log_pi.exp() * combine_critics(q, config.combine)).sum(dim=-1)",
            "(log_pi.exp() * q.mean(dim=0)).sum(dim=-1)",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/policies.py",
        ("tests/sb3_greendc/crr/test_update_masks.py",),
        (
            "crr-target-of-the-online-encoder",
            "features = self.target_encode(observations)",
            "features = self.encode(observations)",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/weights.py",
        ("tests/sb3_greendc/crr/test_weights.py",),
        (
            "crr-imitates-what-is-no-better",
            "(advantage > 0).to(advantage.dtype)",
            "(advantage >= 0).to(advantage.dtype)",
        ),
        ("crr-value-over-invalid-actions", "_only_valid(q, mask, -th.inf)", "_only_valid(q, None, -th.inf)"),
    ),
    *mutations(
        "sb3_greendc/crr/data.py",
        ("tests/sb3_greendc/crr/test_crr.py",),
        (
            "crr-truncation-as-an-end",
            'discounts = self.gamma * (1.0 - arrays["terminated"])',
            ("discounts = self.gamma * (1.0 - (self.dataset.terminated | self.dataset.truncated)[rows])"),
        ),
        (
            "crr-termination-forgotten",
            'discounts = self.gamma * (1.0 - arrays["terminated"])',
            'discounts = self.gamma * (1.0 - 0.0 * arrays["terminated"])',
        ),
        ("crr-rewards-not-scaled", '(arrays["rewards"] * scale)', '(arrays["rewards"] * 1.0)'),
        (
            "crr-returns-not-discounted",
            "values[rows] += gamma * values[rows + 1]",
            "values[rows] += values[rows + 1]",
        ),
        (
            "crr-cut-episodes-count-as-known",
            "known = whole | (",
            "known = np.ones(n, dtype=bool) | (",
        ),
        (
            "crr-returns-beyond-a-gap-count-as-known",
            "whole &= next_gap > end_of",
            "whole &= next_gap >= 0",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/data.py",
        ("tests/sb3_greendc/crr/test_update_masks.py",),
        (
            "crr-same-batches-for-every-seed",
            "np.random.default_rng((self.stream_seed, chunk))",
            "np.random.default_rng((0, chunk))",
        ),
        (
            "crr-same-batches-in-every-chunk",
            "np.random.default_rng((self.stream_seed, chunk))",
            "np.random.default_rng((self.stream_seed, 0))",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/crr.py",
        ("tests/sb3_greendc/crr/test_update_masks.py",),
        (
            "crr-same-draws-in-every-update",
            "hash((self.stream_seed, self._n_updates))",
            "hash((self.stream_seed, 0))",
        ),
    ),
    *mutations(
        "sb3_greendc/crr/crr.py",
        ("tests/sb3_greendc/crr/test_crr_saving.py",),
        (
            "crr-saved-without-its-running-deviation",
            '["policy", "policy.optimizer"], ["advantage_std"]',
            '["policy", "policy.optimizer"], []',
        ),
        (
            "crr-saved-without-its-optimizer",
            '["policy", "policy.optimizer"], ["advantage_std"]',
            '["policy"], ["advantage_std"]',
        ),
    ),
    *mutations(
        "sb3_greendc/crr/crr.py",
        ("tests/sb3_greendc/core/test_target_networks.py",),
        (
            "crr-targets-move-too-seldom",
            "self._n_updates % self.config.target_update_interval == 0",
            "self._n_updates % (2 * self.config.target_update_interval) == 0",
        ),
    ),
    *mutations(
        "sb3_greendc/core/target_networks.py",
        ("tests/sb3_greendc/core/test_target_networks.py",),
        (
            "targets-move-the-other-way",
            "th._foreach_lerp_(self._target, self._online, tau)",
            "th._foreach_lerp_(self._target, self._online, 1.0 - tau)",
        ),
        ("target-is-no-copy-at-first", "target.load_state_dict(online.state_dict())", "online.state_dict()"),
    ),
    *mutations(
        "sb3_greendc/core/masking.py",
        ("tests/sb3_greendc/discrete_sac/test_losses.py", "tests/sb3_greendc/crr/test_updates.py"),
        (
            "mask-of-zeros-is-nan",
            "return mask | ~mask.any(dim=-1, keepdim=True)",
            "return mask | (mask & ~mask.any(dim=-1, keepdim=True))",
        ),
    ),
    *mutations(
        "sb3_greendc/core/masking.py",
        ("tests/sb3_greendc/discrete_sac/test_losses.py",),
        ("mask-is-soft", "MASKED_LOGIT = -1e8", "MASKED_LOGIT = -5.0"),
        (
            "mask-is-turned-round",
            "th.where(effective_mask(mask), logits, th.full_like(logits, MASKED_LOGIT))",
            "th.where(~effective_mask(mask), logits, th.full_like(logits, MASKED_LOGIT))",
        ),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/losses.py",
        ("tests/sb3_greendc/discrete_sac/test_losses.py",),
        (
            "dsac-target-punishes-entropy",
            "values = values - alpha * log_pi",
            "values = values + alpha * log_pi",
        ),
        (
            "dsac-target-beyond-the-end",
            "(1.0 - dones.to(rewards.dtype)) * discounts * next_values",
            "discounts * next_values",
        ),
        (
            "dsac-target-without-next-mask",
            "log_pi = masked_log_softmax(next_logits, next_mask)",
            "log_pi = masked_log_softmax(next_logits, None)",
        ),
        ("dsac-actor-punishes-entropy", "(alpha * log_pi - q.", "(-alpha * log_pi - q."),
        (
            "dsac-entropy-of-the-wrong-sign",
            "return -(log_pi.exp() * log_pi).sum(dim=-1)",
            "return (log_pi.exp() * log_pi).sum(dim=-1)",
        ),
        (
            "dsac-one-entropy-target-for-all-states",
            "greatest = n_valid.to(entropy.dtype).clamp(min=1.0).log()",
            "greatest = n_valid.to(entropy.dtype).max().clamp(min=1.0).log()",
        ),
        ("dsac-states-without-choice-move-the-temperature", "free = (n_valid >= 2)", "free = (n_valid >= 1)"),
        (
            "dsac-temperature-moves-the-other-way",
            "return surplus.sum() * free",
            "return -surplus.sum() * free",
        ),
        (
            "dsac-counts-invalid-actions",
            "return effective_mask(mask).sum(dim=-1).to(logits.dtype)",
            "return th.ones_like(logits).sum(dim=-1)",
        ),
        ("dsac-critics-combined-by-the-maximum", "return th.minimum(q[0]", "return th.maximum(q[0]"),
        ("dsac-clipped-loss-by-the-minimum", "squared = th.maximum(", "squared = th.minimum("),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/discrete_sac.py",
        ("tests/sb3_greendc/discrete_sac/test_discrete_sac.py::test_target_of_the_algorithm",),
        ("dsac-target-mask-of-the-present-state", "action_mask_of(batch.next_observations),", "mask,"),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/discrete_sac.py",
        (
            "tests/sb3_greendc/discrete_sac/test_discrete_sac.py::test_target_of_the_algorithm",
            "tests/sb3_greendc/discrete_sac/test_discrete_sac.py::test_entropy_follows_its_target",
        ),
        (
            "dsac-actor-without-mask",
            "log_pi = masked_log_softmax(logits, mask)",
            "log_pi = masked_log_softmax(logits, None)",
        ),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/discrete_sac.py",
        ("tests/sb3_greendc/discrete_sac/test_targets.py",),
        (
            "dsac-target-of-the-online-critics",
            "else policy.target_q_values(batch.next_observations)",
            "else policy.q_values(next_features)",
        ),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/discrete_sac.py",
        (
            "tests/sb3_greendc/discrete_sac/test_discrete_sac.py::test_target_entropy_ratio_decays_to_its_final_value",
        ),
        (
            "dsac-entropy-ratio-runs-backwards",
            "(self.target_entropy_ratio - final) * remaining",
            "(self.target_entropy_ratio - final) * (1.0 - remaining)",
        ),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/masked_collection.py",
        ("tests/sb3_greendc/discrete_sac/test_discrete_sac.py::test_entropy_at_collection_is_stored",),
        (
            "dsac-warm-up-entropy-counts-invalid-actions",
            "np.log(masks.sum(axis=1))",
            "np.log(np.full(len(masks), masks.shape[1]))",
        ),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/discrete_sac.py",
        ("tests/sb3_greendc/discrete_sac/test_discrete_sac_files_and_input.py::test_resuming_is_exact",),
        (
            "dsac-saved-without-its-temperature",
            '[*state_dicts, "ent_coef_optimizer"], ["log_ent_coef"]',
            '[*state_dicts, "ent_coef_optimizer"], []',
        ),
        (
            "dsac-saved-without-its-temperature-optimizer",
            '[*state_dicts, "ent_coef_optimizer"], ["log_ent_coef"]',
            'state_dicts, ["log_ent_coef"]',
        ),
        (
            "dsac-saved-without-its-critics-optimizer",
            '["policy", "policy.actor_optimizer", "policy.critic_optimizer"]',
            '["policy", "policy.actor_optimizer"]',
        ),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/masked_collection.py",
        ("tests/sb3_greendc/discrete_sac/test_discrete_sac.py::test_second_learn_does_not_join_episodes",),
        ("dsac-second-call-joins-episodes", "buffer.end_trajectories()", "buffer.size()"),
    ),
    *mutations(
        "sb3_greendc/discrete_sac/buffers.py",
        ("tests/sb3_greendc/discrete_sac/test_nstep_buffers.py",),
        (
            "nstep-rewards-not-discounted",
            "goes_on, discounts * self._reward(last, env_inds, env), np.float32(0)",
            "goes_on, self._reward(last, env_inds, env), np.float32(0)",
        ),
        (
            "nstep-truncation-as-an-end",
            "dones = _rows(self.dones, last_rows) * (1.0 - _rows(self.timeouts, last_rows))",
            "dones = _rows(self.dones, last_rows) * 1.0",
        ),
        (
            "nstep-runs-on-past-the-newest",
            "(self.dones[last, env_inds] == 0) & (last != newest)",
            "(self.dones[last, env_inds] == 0) & (last != newest + self.buffer_size)",
        ),
        (
            "nstep-runs-on-past-the-end",
            "(self.dones[last, env_inds] == 0) & (last != newest)",
            "last != newest",
        ),
        (
            "nstep-same-discount-for-short-returns",
            "np.where(goes_on, discounts * self._discounts(last, env_inds), discounts)",
            "discounts * self._discounts(last, env_inds)",
        ),
        (
            "nstep-decisions-for-time",
            "np.float32(self.gamma) ** self.time_steps[inds, env_inds]",
            "np.float32(self.gamma) ** (0 * self.time_steps[inds, env_inds] + 1)",
        ),
        (
            "nstep-time-is-not-kept",
            "self.time_steps[self.pos] = steps_of(infos)",
            "steps_of(infos)",
        ),
        (
            "nstep-an-interruption-as-an-end",
            "self.timeouts[newest][unfinished] = 1.0",
            "self.timeouts[newest][unfinished] = 0.0",
        ),
    ),
)
