"""Recurrent policies with a cost critic and action masks, for :class:`RecurrentPIDLagrangianPPO`."""

from __future__ import annotations

from typing import Any, cast

import torch as th
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import (
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    create_mlp,
)
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import nn

from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.pid_ppo.policies import CostCriticMixin

LSTMStates = tuple[th.Tensor, th.Tensor]
"""Hidden and cell state."""


class CostRecurrentActorCriticPolicy(CostCriticMixin, RecurrentActorCriticPolicy):
    """Recurrent actor, value function and cost critic for vector observations.

    The cost critic reads what the value function reads: the output of the critic's LSTM. So it adds no
    recurrent state. Takes the arguments of sb3-contrib's ``RecurrentActorCriticPolicy``; ``net_arch`` may
    have an entry ``"cost"``.
    """

    def _get_constructor_parameters(self) -> dict[str, Any]:
        # Without these, sb3-contrib's policies load with an LSTM of the default size.
        data = super()._get_constructor_parameters()
        data.update(
            lstm_hidden_size=self.lstm_output_dim,
            n_lstm_layers=self.lstm_actor.num_layers,
            shared_lstm=self.shared_lstm,
            enable_critic_lstm=self.enable_critic_lstm,
            lstm_kwargs=self.lstm_kwargs,
        )
        return data

    def _cost_latent_dim(self) -> int:
        return int(self.lstm_output_dim)

    @staticmethod
    def _process_sequence(
        features: th.Tensor, lstm_states: LSTMStates, episode_starts: th.Tensor, lstm: nn.LSTM
    ) -> tuple[th.Tensor, Any]:  # sb3-contrib annotates the states as one tensor
        """Run an LSTM over padded sequences in one call.

        sb3-contrib's policies do so, too, but go step by step as soon as an episode begins anywhere in the
        minibatch. Rollout buffers cut sequences where an episode begins, so it begins with a sequence, never
        within one, and it is enough to reset the state before the sequence.

        :param features: ``(n_seq * length, features)``
        :param lstm_states: hidden and cell state before each sequence, each ``(layers, n_seq, hidden)``
        :param episode_starts: ``(n_seq * length,)``
        :param lstm: the network
        :return: ``(n_seq * length, hidden)``, and the states after the sequences
        """
        n_seq = lstm_states[0].shape[1]
        starts = episode_starts.reshape(n_seq, -1)
        if th.any(starts[:, 1:] != 0.0):
            return RecurrentActorCriticPolicy._process_sequence(features, lstm_states, episode_starts, lstm)
        goes_on = (1.0 - starts[:, 0]).view(1, n_seq, 1)
        sequences = features.reshape(n_seq, -1, lstm.input_size).swapaxes(0, 1)
        output, after = lstm(sequences, (goes_on * lstm_states[0], goes_on * lstm_states[1]))
        return th.flatten(output.transpose(0, 1), start_dim=0, end_dim=1), after

    def _critic_latent(
        self, features: th.Tensor, lstm_states: LSTMStates, episode_starts: th.Tensor
    ) -> th.Tensor:
        """Return what both critics read, for a critic that does not share the actor's LSTM."""
        if self.lstm_critic is None:
            latent: th.Tensor = cast("nn.Linear", self.critic)(features)
        else:
            latent, _ = self._process_sequence(features, lstm_states, episode_starts, self.lstm_critic)
        return latent

    def predict_cost_values(
        self, obs: PyTorchObs, lstm_states: LSTMStates, episode_starts: th.Tensor
    ) -> th.Tensor:
        """Return the expected discounted cost from here on, ``(B, 1)``.

        :param obs: observation
        :param lstm_states: hidden and cell state of the critic before the observation, each
            ``(layers, B, hidden)``
        :param episode_starts: ``(B,)``, whether the observation is the first of its episode
        """
        features = BaseModel.extract_features(self, obs, self.vf_features_extractor)
        if self.shared_lstm:
            latent, _ = self._process_sequence(features, lstm_states, episode_starts, self.lstm_actor)
        else:
            latent = self._critic_latent(features, lstm_states, episode_starts)
        cost_values: th.Tensor = self.cost_net(latent)
        return cost_values

    def evaluate_actions_with_cost(
        self,
        obs: PyTorchObs,
        actions: th.Tensor,
        lstm_states: RNNStates,
        episode_starts: th.Tensor,
        action_masks: th.Tensor | None = None,
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor | None]:
        """Do what ``evaluate_actions`` does, and evaluate the cost, with one pass through the networks.

        :param obs: padded sequences of observations
        :param actions: actions taken
        :param lstm_states: states of actor and critic at the start of each sequence
        :param episode_starts: whether each observation is the first of its episode
        :param action_masks: masks that the observation does not carry
        :return: values, cost values, log-probabilities of the actions, entropies (``None`` if they have no
            closed form)
        """
        features = self.extract_features(obs)
        pi_features, vf_features = features if isinstance(features, tuple) else (features, features)
        latent_pi, _ = self._process_sequence(
            pi_features, cast("LSTMStates", lstm_states.pi), episode_starts, self.lstm_actor
        )
        if self.shared_lstm:
            latent_vf = latent_pi.detach()  # only the actor trains a shared LSTM, as in sb3-contrib
        else:
            latent_vf = self._critic_latent(vf_features, cast("LSTMStates", lstm_states.vf), episode_starts)
        values = self.value_net(self.mlp_extractor.forward_critic(latent_vf))
        with self._masking(obs, action_masks):
            distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(latent_pi))
        return values, self.cost_net(latent_vf), distribution.log_prob(actions), distribution.entropy()


class CostRecurrentActorCriticCnnPolicy(CostRecurrentActorCriticPolicy, RecurrentActorCriticCnnPolicy):
    """:class:`CostRecurrentActorCriticPolicy` for images."""


class CostRecurrentMultiInputActorCriticPolicy(
    CostRecurrentActorCriticPolicy, RecurrentMultiInputActorCriticPolicy
):
    """:class:`CostRecurrentActorCriticPolicy` for ``Dict`` observations."""


class MlpFeatures(BaseFeaturesExtractor):
    """Fully connected layers over a vector or ``Dict`` observation; the action mask is left out.

    :param observation_space: observation space
    :param layers: sizes of the layers
    :param activation_fn: activation after each layer
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        layers: tuple[int, ...] = (64, 64),
        activation_fn: type[nn.Module] = nn.Tanh,
    ) -> None:
        super().__init__(observation_space, features_dim=layers[-1])
        self.flat: BaseFeaturesExtractor
        if isinstance(observation_space, spaces.Dict):
            seen = {key: space for key, space in observation_space.spaces.items() if key != ACTION_MASK}
            self.flat = CombinedExtractor(spaces.Dict(seen))
        else:
            self.flat = FlattenExtractor(observation_space)
        *hidden, last = layers
        self.mlp = nn.Sequential(
            *create_mlp(self.flat.features_dim, last, hidden, activation_fn), activation_fn()
        )

    def forward(self, observations: PyTorchObs) -> th.Tensor:
        """Return the features, ``(B, layers[-1])``."""
        features: th.Tensor = self.mlp(self.flat(observations))
        return features


class CocorlPolicy(CostRecurrentActorCriticPolicy):
    """CoCoRL's policy: two fully connected layers, then LSTMs for actor and critics, then linear heads.

    sb3-contrib puts the LSTM before ``net_arch``; so the two layers are the features extractor, and
    ``net_arch`` is empty. For vector and ``Dict`` observations. The sizes are a choice of ours: 64 each.

    :param args: as for :class:`CostRecurrentActorCriticPolicy`
    :param kwargs: as for :class:`CostRecurrentActorCriticPolicy`
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs = {"features_extractor_class": MlpFeatures, "net_arch": [], "lstm_hidden_size": 64, **kwargs}
        super().__init__(*args, **kwargs)


MlpLstmPolicy = CostRecurrentActorCriticPolicy
CnnLstmPolicy = CostRecurrentActorCriticCnnPolicy
MultiInputLstmPolicy = CostRecurrentMultiInputActorCriticPolicy
