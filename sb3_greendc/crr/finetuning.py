"""From data to an environment: CRR's own loss on mixed batches, or a DiscreteSAC with its networks."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import check_for_correct_spaces, safe_mean
from stable_baselines3.common.vec_env import VecEnv

from greendc.config import require
from sb3_greendc.crr.updates import Batch
from sb3_greendc.discrete_sac.collection import require_finite
from sb3_greendc.discrete_sac.discrete_sac import DiscreteSAC

if TYPE_CHECKING:
    from sb3_greendc.crr.crr import CRR
    from sb3_greendc.crr.data import BatchStream, TrainingData
    from sb3_greendc.crr.policies import CRRPolicy


NO_NORMALIZATION = "env: CRR takes no VecNormalize: its data hold observations and rewards as they are"


@dataclass(frozen=True)
class FinetuneSettings:
    """How a model is tuned to an environment; see :meth:`CRR.finetune`.

    :raises ValueError: for a value outside its range
    """

    steps: int
    offline_fraction: float = 0.5
    learning_starts: int = 1000
    gradient_steps: int = 1
    train_freq: int = 1
    log_interval: int = 10
    learning_rate: float | Schedule | None = None

    def __post_init__(self) -> None:
        fraction = self.offline_fraction
        require(0.0 <= fraction <= 1.0, "offline_fraction", fraction, "at least 0 and at most 1")
        for name, least in (("steps", 1), ("learning_starts", 0), ("gradient_steps", 1), ("train_freq", 1)):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
            require(whole, name, value, f"a whole number of at least {least}")
        rate = self.learning_rate
        number = isinstance(rate, (int, float, np.floating))
        usable = rate is None or callable(rate) or (number and 0.0 < rate < float("inf"))
        require(usable, "learning_rate", rate, "finite and above 0, or a function of the remaining progress")


class OnlineData:
    """What the environment gave so far, and batches that mix it with the data set.

    :param buffer: transitions of the environment, actions as it takes them
    :param offline_fraction: share of a batch that comes from the data set
    :param scale: factor on rewards
    :param gamma: discount
    """

    def __init__(self, buffer: ReplayBuffer, offline_fraction: float, scale: float, gamma: float) -> None:
        self.buffer = buffer
        self.offline_fraction = offline_fraction
        self.scale = scale
        self.gamma = gamma

    def mixed_batch(self, stream: BatchStream | None, batch_size: int, update: int) -> Batch:
        """Return transitions of both, the data set's first.

        :param stream: the data set's batches, of ``batch_size`` each; ``None`` without data
        :param batch_size: transitions in all
        :param update: number of the update
        """
        n_offline = round(self.offline_fraction * batch_size)
        if stream is None or n_offline == 0:
            return self._sample(batch_size)
        offline = stream.batch(update).part(slice(n_offline))
        return offline if n_offline == batch_size else _joined(offline, self._sample(batch_size - n_offline))

    def _sample(self, n: int) -> Batch:
        samples = self.buffer.sample(n)
        discrete = isinstance(self.buffer.action_space, spaces.Discrete)
        space = self.buffer.observation_space
        return Batch(
            _as_in_data(samples.observations, space),
            samples.actions.long().squeeze(1) if discrete else samples.actions.float(),
            _as_in_data(samples.next_observations, space),
            samples.rewards.flatten() * self.scale,
            self.gamma * (1.0 - samples.dones.flatten()),
        )


def _as_in_data(observations: Any, space: spaces.Space[Any]) -> Any:
    """Return observations of a replay buffer in the shape of their space: SB3 makes numbers vectors."""
    if isinstance(space, spaces.Dict):
        return {key: _as_in_data(values, space[key]) for key, values in observations.items()}
    return observations.squeeze(1) if isinstance(space, spaces.Discrete) else observations


def finetune(
    model: CRR,
    settings: FinetuneSettings,
    callback: MaybeCallback,
    tb_log_name: str,
    reset_num_timesteps: bool,
    progress_bar: bool,
) -> None:
    """Collect transitions by the model's own policy, learn from them and the data; see ``CRR.finetune``."""
    env = model.get_env()
    if env is None:
        raise ValueError("env: there is no environment to learn from: pass one")
    if model.get_vec_normalize_env() is not None:
        raise ValueError(NO_NORMALIZATION)
    if model.weight_mode == "bc":
        raise ValueError("weight_mode='bc': there is no critic, and so nothing to learn from rewards")
    if settings.offline_fraction > 0.0 and model.dataset is None:
        raise ValueError(
            f"offline_fraction={settings.offline_fraction}: there are no data; call set_dataset(...) first, "
            "or pass offline_fraction=0"
        )
    if settings.learning_rate is not None:
        model.learning_rate = settings.learning_rate
        model._setup_lr_schedule()
    _start(model, env, settings, reset_num_timesteps)
    total, callback = model._setup_learn(
        settings.steps, callback, reset_num_timesteps, tb_log_name, progress_bar
    )
    callback.on_training_start({**locals(), "total_timesteps": total}, globals())
    calls, episodes_logged = 0, model._episode_num
    while model.num_timesteps < total:
        if not _collect(model, env, callback):
            break
        calls += 1
        model._update_current_progress_remaining(model.num_timesteps, total)
        if model.num_timesteps >= settings.learning_starts and calls % settings.train_freq == 0:
            model.train(settings.gradient_steps)
        if model._episode_num - episodes_logged >= settings.log_interval:
            episodes_logged = model._episode_num
            _log(model)
    callback.on_training_end()


def _start(model: CRR, env: VecEnv, settings: FinetuneSettings, anew: bool) -> None:
    """Give the model a scale, and a place for transitions: all that are asked for, and no more."""
    if model.scale is None:
        raise ValueError("reward_scale='auto': there never were data to find it from; pass a number")
    if model._online is not None and not anew:
        model._online.offline_fraction = settings.offline_fraction
        return
    space, size = model.observation_space, max(settings.steps, env.num_envs)
    options: dict[str, Any] = {"device": model.device, "n_envs": env.num_envs}
    if isinstance(space, spaces.Dict):
        buffer: ReplayBuffer = DictReplayBuffer(size, space, model.action_space, **options)
    else:
        buffer = ReplayBuffer(size, space, model.action_space, **options)
    model._online = OnlineData(buffer, settings.offline_fraction, model.scale, model.gamma)


def _collect(model: CRR, env: VecEnv, callback: BaseCallback) -> bool:
    """Step the environments once and keep the transitions; return whether to go on."""
    assert model._last_obs is not None
    assert model._online is not None
    actions, _ = model.predict(model._last_obs, deterministic=False)
    new_obs, rewards, dones, infos = env.step(actions)
    require_finite("reward", rewards)
    require_finite("observation", cast("Any", new_obs))
    model.num_timesteps += env.num_envs
    callback.update_locals(locals())
    if not callback.on_step():
        return False
    model._update_info_buffer(infos, dones)
    model._episode_num += int(dones.sum())
    next_obs = _with_last_observations(new_obs, dones, infos)
    model._online.buffer.add(model._last_obs, next_obs, actions, rewards, dones, infos)  # type: ignore[arg-type]
    model._last_obs = new_obs  # type: ignore[assignment]
    return True


def _with_last_observations(new_obs: Any, dones: NDArray[np.bool_], infos: list[dict[str, Any]]) -> Any:
    """Return the observations in which the steps ended: not the first ones of the next episodes."""
    if not dones.any():
        return new_obs
    if isinstance(new_obs, dict):
        ended = {key: array.copy() for key, array in new_obs.items()}
        for i in np.flatnonzero(dones):
            for key in ended:
                ended[key][i] = infos[i]["terminal_observation"][key]
        return ended
    ended = new_obs.copy()
    for i in np.flatnonzero(dones):
        ended[i] = infos[i]["terminal_observation"]
    return ended


def _log(model: CRR) -> None:
    assert model.ep_info_buffer is not None
    if model.ep_info_buffer:
        model.logger.record("rollout/ep_rew_mean", safe_mean([e["r"] for e in model.ep_info_buffer]))
        model.logger.record("rollout/ep_len_mean", safe_mean([e["l"] for e in model.ep_info_buffer]))
    model.dump_logs()


def _joined(first: Batch, second: Batch) -> Batch:
    """Return two batches as one."""

    def both(a: Any, b: Any) -> Any:
        if isinstance(a, dict):
            return {key: th.cat([a[key], b[key]]) for key in a}
        return th.cat([a, b])

    return Batch(*(both(a, b) for a, b in zip(first, second, strict=True)))


def to_discrete_sac(model: CRR, env: GymEnv, options: dict[str, Any]) -> DiscreteSAC:
    """Return a :class:`DiscreteSAC` with CRR's networks, targets and optimizers, careful at the start.

    An offline critic is right about actions that its policy takes, and optimistic about others. So the
    policy collects from the first step on (no uniform warm-up), critics learn alone for the first 2,000
    updates, the data fill up to half of the replay buffer, lest their failures be forgotten, and the
    temperature is small and fixed; values stay without entropy, as CRR learned them.

    :param model: trained, with discrete actions
    :param env: environment with the model's spaces
    :param options: arguments of :class:`DiscreteSAC` in place of these
    :raises ValueError: for ``Box`` actions, a model without critic, or other spaces
    """
    if not isinstance(model.action_space, spaces.Discrete):
        raise ValueError(f"action space {model.action_space}: must be Discrete; finetune takes others")
    if model.weight_mode == "bc":
        raise ValueError("weight_mode='bc': there is no critic to go on with")
    wrapped = DiscreteSAC._wrap_env(cast("Any", env))
    check_for_correct_spaces(wrapped, model.observation_space, model.action_space)
    chosen: dict[str, Any] = {
        "learning_rate": model.learning_rate,
        "batch_size": model.batch_size,
        "tau": model.tau,
        "gamma": model.gamma,
        "combine": model.combine,
        "critic_loss": model.critic_loss,
        "target_update_interval": model.target_update_interval,
        "actor_trains_encoder": model.actor_trains_encoder,
        "reward_scale": model.scale or 1.0,
        "soft_critic": False,
        "ent_coef": 0.01,
        "warmup": "policy",
        "learning_starts": 1000,
        "actor_starts": 2000,
        "seed": model.seed,
        "device": model.device,
        "verbose": model.verbose,
    }
    # DiscreteSAC's target takes the present actor: a slow copy of it has no use there.
    policy_kwargs = {**model.policy_kwargs, "target_actor": False}
    online = DiscreteSAC(model.policy_class, wrapped, policy_kwargs=policy_kwargs, **{**chosen, **options})  # type: ignore[arg-type]
    state = model.policy.state_dict()
    online.policy.load_state_dict({key: value for key, value in state.items() if key[:13] != "actor_target."})
    _copy_optimizer_state(cast("CRRPolicy", model.policy), cast("CRRPolicy", online.policy))
    if model._data is not None:
        _fill(cast("ReplayBuffer", online.replay_buffer), model._data)
    return online


def _fill(buffer: ReplayBuffer, data: TrainingData) -> None:
    """Put transitions of the data into the first half of a buffer, by shares of the sources.

    They are marked as cut off where they do not terminate: the next row of the buffer does not follow.
    """
    n_steps = min(buffer.buffer_size // 2, -(-len(data.dataset) // buffer.n_envs))
    rows = data.sampler.draw(n_steps * buffer.n_envs, np.random.default_rng(0))
    arrays = data.dataset.batch(rows)

    def place(stored: Any, values: Any) -> None:
        if isinstance(stored, dict):
            for key in stored:
                place(stored[key], values[key])
        else:
            stored[:n_steps] = values.reshape(n_steps, *stored.shape[1:])

    place(buffer.observations, arrays["observations"])
    place(buffer.next_observations, arrays["next_observations"])
    place(buffer.actions, arrays["actions"])
    place(buffer.rewards, arrays["rewards"])
    buffer.dones[:n_steps] = 1.0
    place(buffer.timeouts, ~arrays["terminated"])
    buffer.pos = n_steps


def _copy_optimizer_state(source: CRRPolicy, target: CRRPolicy) -> None:
    """Give DiscreteSAC's two optimizers the moments that CRR's one has of each parameter."""
    moments = source.optimizer.state
    theirs = dict(source.named_parameters())
    moments_of = {parameter: moments.get(theirs[name]) for name, parameter in target.named_parameters()}
    for optimizer in (target.actor_optimizer, target.critic_optimizer):
        for parameter in optimizer.param_groups[0]["params"]:
            if moments_of[parameter]:
                optimizer.state[parameter] = deepcopy(moments_of[parameter])
