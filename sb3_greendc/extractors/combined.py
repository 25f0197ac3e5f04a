"""SB3's extractor for ``Dict`` observations, without the action mask."""

from __future__ import annotations

from gymnasium import spaces
from stable_baselines3.common.torch_layers import CombinedExtractor

from greendc.config import require_class
from sb3_greendc.core.masking import ACTION_MASK


class MaskedCombinedExtractor(CombinedExtractor):
    """Flatten vectors, run images through ``NatureCNN``, concatenate; the key ``action_mask`` is dropped.

    The mask acts on the logits; as an input it would be redundant.

    :param observation_space: a ``Dict``
    :param cnn_output_dim: features of each image
    :param normalized_image: images already lie in [0, 1]
    :raises TypeError: for other spaces
    :raises ValueError: for a space that holds nothing but the mask
    """

    def __init__(
        self, observation_space: spaces.Dict, cnn_output_dim: int = 256, normalized_image: bool = False
    ) -> None:
        others = "a Dict; others take 'MlpPolicy' or 'CnnPolicy'"
        require_class("observation_space", observation_space, (spaces.Dict,), others)
        inputs = {key: space for key, space in observation_space.spaces.items() if key != ACTION_MASK}
        if not inputs:
            raise ValueError(f"observation space {observation_space}: holds nothing but {ACTION_MASK!r}")
        super().__init__(spaces.Dict(inputs), cnn_output_dim, normalized_image)
