"""The time to a policy of a given value: what is trained, when a ladder ends, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten

from benchmarks import scratch
from benchmarks.command import main
from benchmarks.scratch import Contender, Flattening, FlatVecEnv, Rung, climb, flattened
from sb3_greendc.core.vec_env import make_vec_env


def test_a_ladder_ends_with_the_first_budget_whose_mean_reaches_the_goal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worth = {(10, 0): 0.5, (10, 1): 0.8, (20, 0): 0.6, (20, 1): 0.8, (40, 0): 1.0, (40, 1): 1.0}

    def train(budget: int, seed: int) -> Rung:
        return Rung(budget / 10, str(worth[budget, seed]), scratch.PROBLEM)

    def play(policy: str, scenario: object, episodes: int) -> list[dict[str, float]]:
        return [{scratch.SHOWN: float(policy)}] * episodes

    monkeypatch.setitem(scratch.CONTENDERS, "distillation", Contender((10, 20, 40), train))
    monkeypatch.setattr(scratch, "play", play)
    path = tmp_path / "scratch.json"
    options = ["--learners", "distillation", "--goal", "0.7", "--seeds", "2", "--episodes", "3"]
    assert main(["scratch", *options, "--json", str(path)]) == 0
    written = json.loads(path.read_text())
    assert written["learners"]["distillation"] == [
        {"budget": 10, "seconds": [1.0, 1.0], "values": [pytest.approx(0.5), pytest.approx(0.8)]},
        {"budget": 20, "seconds": [2.0, 2.0], "values": [pytest.approx(0.6), pytest.approx(0.8)]},
    ]
    shown = capsys.readouterr().out
    assert shown.count("reached") == 1
    assert len(climb("distillation", 2.0, 2, 1)) == 3


def test_maskable_ppo_is_trained_and_judged() -> None:
    rung = scratch.maskable_ppo(128, seed=0)
    assert rung.seconds > 0
    rows = list(scratch.play(rung.policy, rung.scenario.with_kwargs(episode_steps=20), 2))
    assert len(rows) == 2


def test_flat_observations_hold_what_the_dicts_hold() -> None:
    kept = make_vec_env("ResourcePool-10", 2, 0, episode_steps=3)
    flat = FlatVecEnv(make_vec_env("ResourcePool-10", 2, 0, episode_steps=3))
    assert isinstance(kept.observation_space, spaces.Dict)
    before, after = kept.reset(), flat.reset()
    assert isinstance(before, dict)
    ended = False
    while not ended:
        for k in range(2):
            own = {key: part[k] for key, part in before.items()}
            assert np.array_equal(after[k], flatten(kept.observation_space, own).astype(np.float32))
        assert after.shape == (2, *flat.observation_space.shape)
        waiting = np.full(2, kept.action_space.n - 1)
        before, _, _, kept_infos = kept.step(waiting)
        after, _, dones, infos = flat.step(waiting)
        ended = bool(dones.all())
    last = kept_infos[0]["terminal_observation"]
    expected = flatten(kept.observation_space, last).astype(np.float32)
    assert np.array_equal(infos[0]["terminal_observation"], expected)


def test_a_policy_of_flat_observations_is_shown_dicts() -> None:
    class Sums:
        def predict(self, observation: np.ndarray, deterministic: bool) -> tuple[np.ndarray, None]:
            return observation.sum(axis=1), None

    observation = {"b": np.ones((2, 2, 2), np.uint8), "a": np.full((2, 1), 3.0)}
    assert flattened(observation).tolist() == [[3, 1, 1, 1, 1]] * 2
    assert Flattening(Sums()).predict(observation)[0].tolist() == [7, 7]
