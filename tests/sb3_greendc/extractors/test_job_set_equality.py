"""The job set computes what its formulas say, slot by slot: outputs, gradients, distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from pool_spaces import pool_batch, pool_space
from sb3_contrib.common.maskable.distributions import MaskableCategorical
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import nn
from torch.nn.functional import linear

from sb3_greendc.core.masking import MASKED_LOGIT
from sb3_greendc.extractors import JobSetExtractor, JobSetPolicy, MaskableJobSetPolicy
from sb3_greendc.extractors.compiled_inputs import pool, present_slots, summarize_rows
from sb3_greendc.extractors.heads import Tanh, make_activation, stacked_mlp

N_JOBS, BATCH = 5, 40


def observations(space, batch=BATCH):
    """Return tensors of which some tables are empty, and masks that allow no empty slot."""
    arrays = pool_batch(space, batch=batch)
    jobs, mask = arrays["jobs"], arrays["action_mask"]
    filled = np.random.default_rng(3).integers(0, N_JOBS + 1, batch)
    filled[:2] = 0, N_JOBS
    for row, n in enumerate(filled):
        jobs[row, n:] = 0.0
        mask[row, n:N_JOBS] = 0
    mask[:, -1] = 1
    return {key: th.as_tensor(values) for key, values in arrays.items()}


def slot_by_slot(extractor, heads, inputs):
    """Return logits ``(n_heads, B, n + 2)`` and the context from full tables, as the formulas are written."""
    image = inputs["resources"].flatten(2).unflatten(2, (2, -1)) / 255.0
    parts = [image.mean(3), (image > 0).float().mean(3), (image == 1).float().mean(3)]
    rows = extractor.rows(th.cat(parts, dim=2))
    vectors = [inputs[key].flatten(1) for key in extractor.inputs.vector_keys]
    situation = extractor.situation(th.cat([rows, *vectors], dim=1))
    table = inputs["jobs"]
    present = (table != 0).any(dim=2, keepdim=True)
    jobs = extractor.job_input(table) + extractor.situation_input(situation).unsqueeze(1)
    jobs = extractor.job_encoder(jobs)
    if extractor.attention is not None:
        jobs = extractor.attention(jobs, present)
    jobs = jobs * present
    mean = jobs.sum(dim=1) / present.sum(dim=1).clamp(min=1)
    maximum = jobs.masked_fill(~present, MASKED_LOGIT).amax(dim=1) * present.any(dim=1)
    context = extractor.context(th.cat([situation, mean, maximum], dim=1))
    scores = [
        linear(jobs, heads.job_input.weight[k].t(), heads.job_input.bias[k, 0])
        + linear(context, heads.context_input.weight[k].t(), heads.context_input.bias[k, 0]).unsqueeze(1)
        for k in range(heads.n_heads)
    ]
    scores = th.stack(scores)
    if heads.job_scorer is not None:
        scores = heads.job_scorer(scores.flatten(1, 2)).view(heads.n_heads, len(table), -1, 1)
    return th.cat([scores.squeeze(3), heads.other_scorer(context)], dim=2), context


@pytest.mark.parametrize("n_attention_heads", [0, 4])
@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("net_arch", [[32, 16], []])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_logits_and_gradients_are_those_of_full_tables(n_attention_heads, n_heads, net_arch, activation):
    th.manual_seed(0)
    space = pool_space(N_JOBS)
    extractor = JobSetExtractor(space, n_attention_heads=n_attention_heads)
    heads = extractor.make_heads(N_JOBS + 2, n_heads, net_arch, activation)
    parameters = [*extractor.parameters(), *heads.parameters()]
    given = observations(space)
    inputs = preprocess_obs(given, space)
    expected, context = slot_by_slot(extractor, heads, inputs)
    towards = th.randn_like(expected)
    gradients = th.autograd.grad((expected * towards).sum() + context.sum(), parameters)

    compact = extractor.encode(extractor.preprocess(given, space, True))
    flat = compact.flat()
    th.testing.assert_close(extractor(inputs), flat, rtol=1e-3, atol=1e-3)
    ways = {"compact": (compact, compact.context), "flat": (flat, flat[:, -extractor.context_dim :])}
    for name, (features, found_context) in ways.items():
        found = heads(features)
        th.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, msg=lambda text, of=name: of + text)
        of_found = th.autograd.grad(
            (found * towards).sum() + found_context.sum(),
            parameters,
            retain_graph=True,
            materialize_grads=True,
        )
        for gradient, of_expected in zip(of_found, gradients, strict=True):
            greatest = float(of_expected.abs().max())
            th.testing.assert_close(gradient, of_expected, rtol=0, atol=1e-5 + 5e-3 * greatest)


@pytest.mark.parametrize("policy_class", [JobSetPolicy, MaskableJobSetPolicy])
def test_policies_evaluate_as_full_tables_and_torchs_distributions_do(policy_class):
    th.manual_seed(0)
    space = pool_space(N_JOBS)
    policy = policy_class(space, spaces.Discrete(N_JOBS + 2), lambda _: 1e-3)
    policy.mlp_extractor.actor_heads.scale_output(100.0)
    given = observations(space)
    masks = {"action_masks": given["action_mask"]} if policy_class is MaskableJobSetPolicy else {}
    actions = given["action_mask"].float().multinomial(1).squeeze(1)
    latents = policy.mlp_extractor
    logits, context = slot_by_slot(
        policy.features_extractor, latents.actor_heads, preprocess_obs(given, space)
    )
    distribution = MaskableCategorical(logits=logits[0], masks=given["action_mask"])
    expected = policy.value_net(latents.critic_net(context)), distribution.log_prob(actions)
    expected = *expected, distribution.entropy()
    for found, value in zip(policy.evaluate_actions(given, actions, **masks), expected, strict=True):
        th.testing.assert_close(found, value, rtol=1e-4, atol=1e-5)
    th.testing.assert_close(policy.predict_values(given), expected[0], rtol=1e-4, atol=1e-5)
    found = policy.get_distribution(given, **masks)
    th.testing.assert_close(found.distribution.probs, distribution.probs, rtol=1e-4, atol=1e-6)
    assert th.equal(found.mode(), distribution.probs.argmax(dim=1))
    th.manual_seed(1)
    drawn = found.sample()
    th.manual_seed(1)
    assert th.equal(drawn, distribution.sample())


def test_a_mask_that_allows_an_empty_slot_gets_its_score():
    space = pool_space(N_JOBS)
    policy = MaskableJobSetPolicy(space, spaces.Discrete(N_JOBS + 2), lambda _: 1e-3)
    policy.mlp_extractor.actor_heads.scale_output(100.0)
    given = observations(space)
    masks = th.ones_like(given["action_mask"])
    unmasked = {key: value for key, value in given.items() if key != "action_mask"}
    everything = policy.get_distribution(unmasked).distribution.probs
    th.testing.assert_close(policy.get_distribution(given, masks).distribution.probs, everything)


def test_pooling_has_the_gradients_of_torch():
    owners = th.tensor([0, 0, 0, 2, 4, 4])
    jobs = th.randn(6, 3, requires_grad=True)
    like = jobs.detach().double().requires_grad_()  # which torch's own functions pool
    towards = th.randn(2, 5, 3)
    for values in (jobs, like):
        mean, maximum = pool(values, owners, 5)
        (mean * towards[0] + maximum * towards[1]).sum().backward()
    th.testing.assert_close(jobs.grad, like.grad.float())


def test_rows_and_slots_are_read_as_torch_reads_them():
    image = th.randint(0, 256, (3, 7, 2 * 9), dtype=th.uint8)
    image[0, 0], image[0, 1] = 0, 255
    cells = image.unflatten(2, (2, 9)).double()
    expected = [cells.mean(3) / 255, (cells > 0).double().mean(3), (cells == 255).double().mean(3)]
    th.testing.assert_close(summarize_rows(image, 2), th.cat(expected, dim=2).float())
    table = th.zeros(4, 3, 2)
    table[0, 1, 1], table[3, 0, 0] = -1.0, 1.0
    assert present_slots(table).tolist() == present_slots(table.double()).tolist() == [1, 9]


def test_the_fast_hyperbolic_tangent_is_the_hyperbolic_tangent():
    assert isinstance(make_activation(nn.Tanh), Tanh)
    inputs = th.linspace(-20, 20, 4001, requires_grad=True)
    values = Tanh()(inputs)
    (gradient,) = th.autograd.grad(values.sum(), inputs)
    exact = inputs.detach().double().tanh()
    th.testing.assert_close(values, exact.float(), rtol=0, atol=3e-7)
    th.testing.assert_close(gradient, (1 - exact**2).float(), rtol=0, atol=1e-6)


def test_one_network_of_a_stack_is_the_stack():
    th.manual_seed(0)
    two, one = stacked_mlp(2, 6, 3, [8], nn.ReLU), stacked_mlp(1, 6, 3, [8], nn.ReLU)
    one.load_state_dict({key: values[1:] for key, values in two.state_dict().items()})
    inputs = th.randn(7, 6)
    th.testing.assert_close(one(inputs)[0], two(inputs)[1])
