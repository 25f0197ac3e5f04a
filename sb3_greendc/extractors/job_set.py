"""Permutation-equivariant features and heads: one scorer for every ready job, whatever their number.

The ready pool is a set. A flat network must learn what a job means for every slot, and its size is bound
to that of the pool. Here all jobs share one encoder and one scorer: exchanging two jobs exchanges their
logits, and the parameters know neither the number of ready jobs nor the number of units, so that weights
trained on a small pool run on a large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

from sb3_greendc.core.masking import ACTION_MASK, MASKED_LOGIT
from sb3_greendc.extractors.compiled_inputs import (
    asked_jobs,
    can_summarize,
    pool,
    present_slots,
    summarize_rows,
)
from sb3_greendc.extractors.heads import (
    Heads,
    StackedLinear,
    make_activation,
    multiply_layers,
    scale_last_layer,
    stacked_mlp,
)
from sb3_greendc.extractors.resource_pool import (
    JOBS,
    RESOURCES,
    ResourcePoolInputs,
    TimeBlocks,
    units_per_type,
)

N_OTHER_ACTIONS = 2
"""``suspend`` and ``no_op``, which follow the ready jobs among the actions."""
LEAST_RATIO = 1e-4
"""Logarithms tell values apart down to this one."""
LEAST_DEVIATION = 1e-3
"""Below it, columns count as equal in all jobs."""


@dataclass(frozen=True)
class JobSetFeatures:
    """Features of a batch of ready pools without their empty slots, which are most of a table.

    :param jobs: embeddings of the P present jobs of the batch, ``(P, job_dim)``
    :param slots: ``(P,)``, their places among all ``B · n`` slots
    :param owners: ``(P,)``, the observation that each belongs to
    :param context: ``(B, context_dim)``
    :param n_jobs: n
    :param asked: which of the P jobs need a score; ``None``: every slot has one
    """

    jobs: th.Tensor
    slots: th.Tensor
    owners: th.Tensor
    context: th.Tensor
    n_jobs: int
    asked: th.Tensor | None = None

    def asking(self, mask: th.Tensor) -> JobSetFeatures:
        """Return the features for heads whose scores of invalid actions are not looked at.

        :param mask: ``(B, n + 2)``, non-zero where an action is valid
        """
        asked = asked_jobs(mask, self.slots, self.n_jobs)
        return self if asked is None else replace(self, asked=asked)

    def detach(self) -> JobSetFeatures:
        """Return the features without their gradients."""
        return replace(self, jobs=self.jobs.detach(), context=self.context.detach())

    def flat(self) -> th.Tensor:
        """Return ``(B, n · job_dim + context_dim)``: embeddings, zero for empty slots, then the context."""
        table = spread(self.jobs, self.slots, len(self.context) * self.n_jobs)
        return th.cat([table.view(len(self.context), -1), self.context], dim=1)


class JobSetExtractor(BaseFeaturesExtractor):
    """Features of a set of jobs: one embedding a job, and a context; for resource pools and clusters.

    Of each row of the image and each resource type three numbers are read (mean value, share of cells above
    the lower bound, share of cells at the upper one), whatever the number of units; rows, other vectors and
    the jobs' mean and maximum make the context. Slots whose row is all zero are empty: they are left out of
    pooling and attention. Observations of the cluster family have no image: vectors and jobs are all.

    The features are the embeddings, flattened, followed by the context: ``n · job_dim + context_dim``
    numbers. Use the heads that :meth:`make_heads` returns to keep the symmetry: DiscreteSAC and CRR do so by
    themselves, PPO, MaskablePPO and DQN with the policies of :mod:`sb3_greendc.extractors.policies`.

    :param observation_space: ``Dict`` with ``jobs`` ``(n, features)``, and of a resource pool ``resources``
        ``(horizon, R · M)``
    :param job_dim: numbers in a job's embedding
    :param context_dim: numbers in the context
    :param n_attention_heads: 0 for pooling alone; otherwise a self-attention block lets each job see the
        others one by one (``job_dim`` must be a multiple)
    :param n_resource_types: R
    :param block: rows of the image that are read together
    :param relative: read each column of a job, and the logarithm of its absolute value, relative to those of
        the jobs beside it, too: less their mean, over their standard deviation. In long queues small
        differences decide, and ratios
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
        relative: bool = False,
    ) -> None:
        inputs = ResourcePoolInputs(observation_space, image_optional=True)
        super().__init__(observation_space, inputs.n_jobs * job_dim + context_dim)
        if n_attention_heads < 0 or (n_attention_heads and job_dim % n_attention_heads):
            raise ValueError(
                f"n_attention_heads={n_attention_heads!r}: must be 0 or divide job_dim={job_dim}"
            )
        self.inputs = inputs
        self.job_dim = job_dim
        self.context_dim = context_dim
        self.rows: nn.Sequential | None = None
        if inputs.columns:
            self.units = units_per_type(inputs, n_resource_types)
            # Not part of the state: its size is the number of units, which no weight may depend on.
            type_means = th.eye(n_resource_types).repeat_interleave(self.units, dim=0) / self.units
            self.register_buffer("type_means", type_means, persistent=False)
            blocks = TimeBlocks(inputs.horizon, 3 * n_resource_types, block, 16)
            self.rows = nn.Sequential(blocks, nn.Linear(blocks.output_dim, context_dim), nn.ReLU())
        self.situation = nn.Sequential(
            nn.Linear((context_dim if self.rows is not None else 0) + inputs.vector_dim, context_dim),
            nn.ReLU(inplace=True),
            nn.LayerNorm(context_dim),
        )
        # The first layer of a job's encoder, in two parts: the situation's is the same for all jobs.
        self.relative = relative
        self.job_input = nn.Linear((3 if relative else 1) * inputs.n_job_features, job_dim)
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
        return self.encode(observations).flat()

    def encode(self, observations: TensorDict) -> JobSetFeatures:
        """Return the features without those of empty slots; only jobs that are there cost time.

        In a graph that is exported every slot is computed, since its shapes may not depend on the jobs.

        :param observations: as tensors of floats, or as :meth:`preprocess` leaves them
        """
        if th.onnx.is_in_onnx_export():
            return self._encode_table(observations)
        situation = self._situation(observations)
        table = observations[JOBS]
        n_batch, n_jobs = table.shape[:2]
        slots = present_slots(table)
        single = n_batch == 1  # a decision: nothing needs to be told apart, which takes half the time
        owners = th.zeros_like(slots) if single else th.div(slots, n_jobs, rounding_mode="floor")
        rows = table.flatten(0, 1)
        if len(slots) < len(rows):
            rows = rows.index_select(0, slots)
        if self.relative:
            rows = th.cat([rows, _standardized(_with_logarithms(rows), owners, n_batch)], dim=1)
        of_situation = self.situation_input.forward(situation)
        of_situation = of_situation if single else of_situation.index_select(0, owners)
        jobs = _through(self.job_encoder, self.job_input.forward(rows).add_(of_situation))
        if self.attention is not None:
            present = table.new_zeros(n_batch * n_jobs, dtype=th.bool).index_fill(0, slots, True)
            table = spread(jobs, slots, n_batch * n_jobs).view(n_batch, n_jobs, -1)
            jobs = self.attention(table, present.view(n_batch, n_jobs, 1))
            jobs = jobs.flatten(0, 1).index_select(0, slots)
        mean, maximum = pool(jobs, owners, n_batch)
        context = _through(self.context, th.cat([situation, mean, maximum], dim=1))
        return JobSetFeatures(jobs, slots, owners, context, n_jobs)

    def _encode_table(self, observations: TensorDict) -> JobSetFeatures:
        """Return the same features with a zero embedding in every empty slot."""
        situation = self._situation(observations)
        table = observations[JOBS]
        present = (table != 0).any(dim=2, keepdim=True)
        if self.relative:
            count = present.sum(dim=1, keepdim=True).clamp(min=1)
            columns = _with_logarithms(table)
            gaps = (columns - columns.sum(dim=1, keepdim=True) / count) * present
            deviation = (gaps.square().sum(dim=1, keepdim=True) / count).sqrt()
            table = th.cat([table, gaps / deviation.clamp(min=LEAST_DEVIATION)], dim=2)
        jobs = self.job_encoder(self.job_input(table) + self.situation_input(situation).unsqueeze(1))
        if self.attention is not None:
            jobs = self.attention(jobs, present)
        jobs = jobs * present
        mean = jobs.sum(dim=1) / present.sum(dim=1).clamp(min=1)
        maximum = jobs.masked_fill(~present, MASKED_LOGIT).amax(dim=1) * present.any(dim=1)
        context = self.context(th.cat([situation, mean, maximum], dim=1))
        every = th.arange(table.shape[0] * table.shape[1], device=table.device)
        owners = th.div(every, table.shape[1], rounding_mode="floor")
        return JobSetFeatures(jobs.flatten(0, 1), every, owners, context, table.shape[1])

    def preprocess(
        self, observations: TensorDict, observation_space: spaces.Dict, normalize_images: bool
    ) -> TensorDict:
        """Do what SB3 does with observations before an extractor sees them, but for what it does not look at.

        The mask is no input, and the image stays bytes where its rows are read by compiled code.

        :param observations: as they come from the environment, or from a buffer
        :param observation_space: of the policy
        :param normalize_images: as the policy has it
        """
        ready: TensorDict = {}
        for key, values in observations.items():
            if key == ACTION_MASK:
                continue
            image = key == RESOURCES and can_summarize(values, 1.0 / self.inputs.image_scale)
            if image or _is_ready(values, observation_space[key]):
                ready[key] = values
            else:
                floats = preprocess_obs(values, observation_space[key], normalize_images)
                ready[key] = floats  # type: ignore[assignment]  # no Dict within a Dict
        return ready

    def _situation(self, observations: TensorDict) -> th.Tensor:
        """Return ``(B, context_dim)``: everything but the jobs."""
        parts = self.inputs.vectors(observations)
        if self.rows is not None:
            parts.insert(0, self.rows(self._row_summaries(observations[RESOURCES])))
        situation: th.Tensor = _through(self.situation, th.cat(parts, dim=1))
        return situation

    def _row_summaries(self, image: th.Tensor) -> th.Tensor:
        """Return ``(B, horizon, 3 R)``: what a row holds, whatever the number of units."""
        upper = 1.0 / self.inputs.image_scale
        if can_summarize(image, upper) and not th.onnx.is_in_onnx_export():
            return summarize_rows(image, self.type_means.shape[1]).to(self.type_means.dtype)
        image = image.to(self.type_means.dtype)
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

        :raises ValueError: unless there is one action a job, and of a resource pool ``suspend`` and one or
            more that let time go on
        """
        n_jobs = self.inputs.n_jobs
        if self.rows is None and n_actions < n_jobs:
            raise ValueError(f"{n_actions} actions for {n_jobs} jobs: must be one a job, or more")
        if self.rows is not None and n_actions < n_jobs + N_OTHER_ACTIONS:
            raise ValueError(
                f"{n_actions} actions for {n_jobs} ready jobs: must be one a job, suspend, and no_op or more"
            )
        return JobSetHeads(
            n_jobs, self.job_dim, self.context_dim, n_heads, net_arch, activation_fn, n_actions - n_jobs
        )


class JobSetHeads(Heads):
    """Heads over a :class:`JobSetExtractor`'s features; actions are the jobs, then the others.

    :param n_jobs: ready jobs; no parameter depends on it
    :param job_dim: numbers in a job's embedding
    :param context_dim: numbers in the context
    :param n_heads: number of networks
    :param net_arch: widths of the hidden layers, for the scorer of jobs and for that of the other actions
    :param activation_fn: activation after each hidden layer
    :param n_others: actions that are no jobs: ``suspend`` and ``no_op``, more where power is commanded, one
        or none in a cluster
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
        super().__init__(n_jobs + n_others, n_heads)
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
        self.other_scorer: nn.Sequential | None = None
        if n_others:
            self.other_scorer = stacked_mlp(n_heads, context_dim, n_others, net_arch, activation_fn)

    def forward(self, features: th.Tensor | JobSetFeatures) -> th.Tensor:
        """Return ``(n_heads, B, n_jobs + n_others)``.

        An empty slot has a score too. It follows from the context alone, and is computed once an observation.
        """
        if th.onnx.is_in_onnx_export():
            return self._score_table(features)
        if isinstance(features, th.Tensor):
            features = self.compact(features)
        context = features.context
        jobs, slots, owners = features.jobs, features.slots, features.owners
        if features.asked is not None and len(features.asked) < len(slots):
            jobs, slots, owners = (part.index_select(0, features.asked) for part in (jobs, slots, owners))
        # No job is a job whose embedding is zero: of the first layer, its bias and the context are left.
        empty = self.context_input.forward(context) + self.job_input.bias
        of_context = empty if len(context) == 1 else empty.index_select(1, owners)
        scores = self.job_input.product(jobs).add_(of_context)
        if features.asked is None:
            scores = th.cat([scores, empty], dim=1)
        if self.job_scorer is not None:
            scores = _through(self.job_scorer, scores)
        scores, of_empty = scores.squeeze(2).tensor_split([len(slots)], dim=1)
        if len(slots) == len(context) * self.n_jobs:
            table = scores
        elif features.asked is None:
            table = of_empty.unsqueeze(2).expand(-1, -1, self.n_jobs).flatten(1).index_copy(1, slots, scores)
        else:
            table = context.new_zeros(self.n_heads, len(context) * self.n_jobs).index_copy(1, slots, scores)
        return self._with_others(table.view(self.n_heads, -1, self.n_jobs), context)

    def _with_others(self, scores: th.Tensor, context: th.Tensor) -> th.Tensor:
        """Return the scores of jobs, and those of the actions that are none."""
        return scores if self.other_scorer is None else th.cat([scores, self.other_scorer(context)], dim=2)

    def _score_table(self, features: th.Tensor | JobSetFeatures) -> th.Tensor:
        """Return the same scores by one product over the whole table, as an exported graph needs it."""
        if isinstance(features, JobSetFeatures):
            jobs, context = features.jobs, features.context
        else:
            table, context = self.split(features)
            jobs = table.flatten(0, 1)
        n_batch = context.shape[0]  # len() would fix the batch size of the graph
        scores = self.job_input(jobs).view(self.n_heads, n_batch, self.n_jobs, -1)
        scores = scores + self.context_input(context).unsqueeze(2)
        if self.job_scorer is not None:
            scores = self.job_scorer(scores.flatten(1, 2)).view(self.n_heads, n_batch, self.n_jobs, 1)
        return self._with_others(scores.squeeze(3), context)

    def compact(self, features: th.Tensor) -> JobSetFeatures:
        """Return flat features without the slots whose embedding is zero."""
        jobs, context = self.split(features)
        jobs = jobs.flatten(0, 1)
        slots = jobs.detach().any(dim=1).nonzero().squeeze(1)
        owners = th.div(slots, self.n_jobs, rounding_mode="floor")
        return JobSetFeatures(jobs.index_select(0, slots), slots, owners, context, self.n_jobs)

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
        if self.other_scorer is not None:
            scale_last_layer(self.other_scorer, factor)

    def multiply(self, factor: float) -> None:
        """Multiply weights and biases of the last layers, in which scores are linear."""
        scorers = [scorer[-1] for scorer in (self.job_scorer, self.other_scorer) if scorer is not None]
        first = [self.job_input, self.context_input] if self.job_scorer is None else []
        multiply_layers([*first, *scorers], factor)


def _through(layers: nn.Sequential, values: th.Tensor) -> th.Tensor:
    """Return what layers make of values, without the time that ``nn.Module`` takes to call them."""
    for layer in layers:
        values = layer.forward(values)
    return values


def _is_ready(values: th.Tensor, space: spaces.Space[object]) -> bool:
    """Tell whether SB3 would leave these values as they are: floats, and no image."""
    return isinstance(space, spaces.Box) and values.dtype is th.float32 and len(space.shape) < 3


def _with_logarithms(columns: th.Tensor) -> th.Tensor:
    """Return columns ``(..., F)`` and behind them ``log(1 + |x| / x0)`` with a small x0: ``(..., 2 F)``."""
    return th.cat([columns, (columns.abs() / LEAST_RATIO).log1p()], dim=-1)


def _standardized(rows: th.Tensor, owners: th.Tensor, n_batch: int) -> th.Tensor:
    """Return the rows ``(P, F)`` less the mean of their owner's, over the standard deviation of these."""
    if n_batch == 1 and len(rows):  # a single decision, in a third of the time
        deviation, mean = th.std_mean(rows, dim=0, correction=0)
        return (rows - mean) / deviation.clamp(min=LEAST_DEVIATION)
    gaps = rows - pool(rows, owners, n_batch)[0].index_select(0, owners)
    deviation = pool(gaps.square(), owners, n_batch)[0].sqrt().clamp(min=LEAST_DEVIATION)
    return gaps / deviation.index_select(0, owners)


def spread(jobs: th.Tensor, slots: th.Tensor, n_slots: int) -> th.Tensor:
    """Return a table ``(n_slots, D)`` with the rows ``(P, D)`` in their places, and zeros elsewhere."""
    return jobs.new_zeros(n_slots, jobs.shape[1]).index_copy(0, slots, jobs)


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
