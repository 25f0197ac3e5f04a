"""Models that would sample are asked for their most likely action, unless told otherwise."""

from __future__ import annotations

import pytest
from stable_baselines3 import PPO

from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.paired import evaluate


@pytest.mark.usefixtures("toy")
def test_a_model_that_samples_is_asked_for_its_most_likely_action() -> None:
    model = PPO("MlpPolicy", make_vec_env("DiscreteToy", 2), seed=0, device="cpu")
    asked: list[bool] = []
    predict = model.predict

    def listening(*args, deterministic=False, **kwargs):
        asked.append(deterministic)
        return predict(*args, deterministic=deterministic, **kwargs)

    model.predict = listening  # type: ignore[method-assign]
    likeliest = evaluate([model], "DiscreteToy", 6)
    assert set(asked) == {True}
    asked.clear()
    sampled = evaluate([model], "DiscreteToy", 6, deterministic=False)
    assert set(asked) == {False}
    assert likeliest["return"].tolist() != sampled["return"].tolist()
