"""Permutation-equivariant features and heads: one scorer for every ready job, whatever their number.

The ready pool is a set. A flat network must learn what a job means for every slot, and its size is bound
to that of the pool. Here all jobs share one encoder and one scorer: exchanging two jobs exchanges their
logits, and the parameters know neither the number of ready jobs nor the number of units, so that weights
trained on a small pool run on a large one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

from sb3_greendc.core.masking import MASKED_LOGIT
from sb3_greendc.extractors.heads import Heads, StackedLinear, make_activation, scale_last_layer, stacked_mlp
from sb3_greendc.extractors.resource_pool import (
    JOBS,
    RESOURCES,
    ResourcePoolInputs,
    TimeBlocks,
    units_per_type,
)

N_OTHER_ACTIONS = 2
"""``suspend`` and ``no_op``, which follow the ready jobs among the actions."""


class JobSetExtractor(BaseFeaturesExtractor):
    """Features of a resource-pool observation as a set: one embedding a ready job, and a context.

    Of each row of the image and each resource type three numbers are read (mean value, share of cells above
    the lower bound, share of cells at the upper one), whatever the number of units; rows, other vectors and
    the jobs' mean and maximum make the context. Slots whose row is all zero are empty: they are left out of
    pooling and attention.

    The features are the embeddings, flattened, followed by the context: ``n · job_dim + context_dim``
    numbers. Use the heads that :meth:`make_heads` returns to keep the symmetry: DiscreteSAC and CRR do so by
    themselves, PPO, MaskablePPO and DQN with the policies of :mod:`sb3_greendc.extractors.policies`.

    :param observation_space: ``Dict`` with ``resources`` ``(horizon, R · M)`` and ``jobs`` ``(n, features)``
    :param job_dim: numbers in a job's embedding
    :param context_dim: numbers in the context
    :param n_attention_heads: 0 for pooling alone; otherwise a self-attention block lets each job see the
        others one by one (``job_dim`` must be a multiple)
    :param n_resource_types: R
    :param block: rows of the image that are read together
    :raises ValueError: if the columns cannot be divided among the types, or ``job_dim`` among the heads
    """

    type_means: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Dict,
        job_dim: int = 64,
        context_dim: int = 64,
        n_attention_heads: int = 0,
        n_resource_types: int = 2,
        block: int = 4,
    ) -> None:
        inputs = ResourcePoolInputs(observation_space)
        super().__init__(observation_space, inputs.n_jobs * job_dim + context_dim)
        if n_attention_heads < 0 or (n_attention_heads and job_dim % n_attention_heads):
            raise ValueError(
                f"n_attention_heads={n_attention_heads!r}: must be 0 or divide job_dim={job_dim}"
            )
        self.inputs = inputs
        self.job_dim = job_dim
        self.context_dim = context_dim
        self.units = units_per_type(inputs, n_resource_types)
        # Not part of the state: its size is the number of units, which no weight may depend on.
        type_means = th.eye(n_resource_types).repeat_interleave(self.units, dim=0) / self.units
        self.register_buffer("type_means", type_means, persistent=False)
        blocks = TimeBlocks(inputs.horizon, 3 * n_resource_types, block, 16)
        self.rows = nn.Sequential(blocks, nn.Linear(blocks.output_dim, context_dim), nn.ReLU())
        self.situation = nn.Sequential(
            nn.Linear(context_dim + inputs.vector_dim, context_dim),
            nn.ReLU(inplace=True),
            nn.LayerNorm(context_dim),
        )
        # The first layer of a job's encoder, in two parts: the situation's is the same for all jobs.
        self.job_input = nn.Linear(inputs.n_job_features, job_dim)
        self.situation_input = nn.Linear(context_dim, job_dim, bias=False)
        self.job_encoder = nn.Sequential(
            nn.ReLU(inplace=True), nn.Linear(job_dim, job_dim), nn.ReLU(inplace=True), nn.LayerNorm(job_dim)
        )
        self.attention = _JobAttention(job_dim, n_attention_heads) if n_attention_heads else None
        self.context = nn.Sequential(
            nn.Linear(context_dim + 2 * job_dim, context_dim),
            nn.ReLU(inplace=True),
            nn.LayerNorm(context_dim),
        )

    def forward(self, observations: TensorDict) -> th.Tensor:
        """Return ``(B, n · job_dim + context_dim)``."""
        rows = self.rows(self._row_summaries(observations))
        situation = self.situation(th.cat([rows, *self.inputs.vectors(observations)], dim=1))
        table = observations[JOBS]
        present = (table != 0).any(dim=2, keepdim=True)
        jobs = self.job_input(table) + self.situation_input(situation).unsqueeze(1)
        jobs = self.job_encoder(jobs)
        if self.attention is not None:
            jobs = self.attention(jobs, present)
        jobs = jobs * present
        mean, maximum = pool(jobs, present)
        context = self.context(th.cat([situation, mean, maximum], dim=1))
        return th.cat([jobs.flatten(start_dim=1), context], dim=1)

    def _row_summaries(self, observations: TensorDict) -> th.Tensor:
        """Return ``(B, horizon, 3 R)``: what a row holds, whatever the number of units."""
        image = observations[RESOURCES]
        upper = 1.0 / self.inputs.image_scale
        # One step of a uint8 image tells a bound from all other values without comparisons and casts, and a
        # matrix product takes means far faster than a reduction over a short axis does.
        step = upper / 255.0
        mean = image @ self.type_means
        above_lower = image.clamp(max=step) @ self.type_means
        near_upper = image.clamp(min=upper - step) @ self.type_means
        return th.cat([mean / upper, above_lower / step, (near_upper - (upper - step)) / step], dim=2)

    def make_heads(
        self, n_actions: int, n_heads: int, net_arch: Sequence[int], activation_fn: type[nn.Module] = nn.ReLU
    ) -> JobSetHeads:
        """Return heads that score every job from its embedding and the context.

        :raises ValueError: unless there is one action a ready job, ``suspend``, and one or more that let time
            go on
        """
        n_jobs = self.inputs.n_jobs
        if n_actions < n_jobs + N_OTHER_ACTIONS:
            raise ValueError(
                f"{n_actions} actions for {n_jobs} ready jobs: must be one a job, suspend, and no_op or more"
            )
        return JobSetHeads(
            n_jobs, self.job_dim, self.context_dim, n_heads, net_arch, activation_fn, n_actions - n_jobs
        )


class JobSetHeads(Heads):
    """Heads over a :class:`JobSetExtractor`'s features; actions are the jobs, then ``suspend`` and ``no_op``.

    :param n_jobs: ready jobs; no parameter depends on it
    :param job_dim: numbers in a job's embedding
    :param context_dim: numbers in the context
    :param n_heads: number of networks
    :param net_arch: widths of the hidden layers, for the scorer of jobs and for that of the other two actions
    :param activation_fn: activation after each hidden layer
    :param n_others: actions that are no jobs; more than two where power is commanded
    """

    def __init__(
        self,
        n_jobs: int,
        job_dim: int,
        context_dim: int,
        n_heads: int,
        net_arch: Sequence[int],
        activation_fn: type[nn.Module] = nn.ReLU,
        n_others: int = N_OTHER_ACTIONS,
    ) -> None:
        super().__init__(n_heads, n_jobs + n_others)
        self.n_jobs = n_jobs
        self.job_dim = job_dim
        first, rest = (net_arch[0], net_arch[1:]) if net_arch else (1, None)
        self.job_input = StackedLinear(n_heads, job_dim, first)
        self.context_input = StackedLinear(n_heads, context_dim, first)
        self.job_scorer: nn.Sequential | None = None
        if rest is not None:
            self.job_scorer = nn.Sequential(
                make_activation(activation_fn), *stacked_mlp(n_heads, first, 1, rest, activation_fn)
            )
        self.other_scorer = stacked_mlp(n_heads, context_dim, n_others, net_arch, activation_fn)

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Return ``(n_heads, B, n_jobs + n_others)``."""
        jobs, context = self.split(features)
        n_batch = len(features)
        scores = self.job_input(jobs.reshape(-1, self.job_dim)).view(self.n_heads, n_batch, self.n_jobs, -1)
        scores = scores.add_(self.context_input(context).unsqueeze(2))
        if self.job_scorer is not None:
            scores = self.job_scorer(scores.flatten(1, 2)).view(self.n_heads, n_batch, self.n_jobs, 1)
        return th.cat([scores.squeeze(3), self.other_scorer(context)], dim=2)

    def split(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Return the embeddings ``(B, n_jobs, job_dim)`` and the context ``(B, context_dim)``."""
        n = self.n_jobs * self.job_dim
        return features[:, :n].reshape(-1, self.n_jobs, self.job_dim), features[:, n:]

    def scale_output(self, factor: float) -> None:
        """Multiply the weights of the last layers."""
        if self.job_scorer is not None:
            scale_last_layer(self.job_scorer, factor)
        else:
            for layer in (self.job_input, self.context_input):
                scale_last_layer(nn.Sequential(layer), factor)
        scale_last_layer(self.other_scorer, factor)


def pool(jobs: th.Tensor, present: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Return mean and maximum ``(B, D)`` of the embeddings ``(B, n, D)`` of present jobs; zeros if none is.

    :param jobs: embeddings
    :param present: ``(B, n, 1)``, whether a slot holds a job
    """
    n_present = present.sum(dim=1)
    mean = (jobs * present).sum(dim=1) / n_present.clamp(min=1)
    maximum = jobs.masked_fill(~present, MASKED_LOGIT).amax(dim=1) * (n_present > 0)
    return mean, maximum


class _JobAttention(nn.Module):
    """A transformer block over the present jobs, and a learned token, so that no softmax is over nothing."""

    def __init__(self, job_dim: int, n_heads: int) -> None:
        super().__init__()
        self.token = nn.Parameter(th.zeros(1, 1, job_dim))
        self.attention = nn.MultiheadAttention(job_dim, n_heads, batch_first=True)
        self.norm = nn.LayerNorm(job_dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(job_dim, 2 * job_dim), nn.ReLU(), nn.Linear(2 * job_dim, job_dim)
        )
        self.output_norm = nn.LayerNorm(job_dim)

    def forward(self, jobs: th.Tensor, present: th.Tensor) -> th.Tensor:
        keys = th.cat([self.token.expand(jobs.shape[0], 1, -1), jobs], dim=1)
        ignored = nn.functional.pad(~present.squeeze(2), (1, 0), value=False)
        seen, _ = self.attention(jobs, keys, keys, key_padding_mask=ignored, need_weights=False)
        jobs = self.norm(jobs + seen)
        output: th.Tensor = self.output_norm(jobs + self.feed_forward(jobs))
        return output
