from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch as th
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import VecNormalize
from toy_simulator import N_ACTIONS

from greendc.baselines import best_known
from sb3_greendc import DiscreteSAC, PIDLagrangianPPO
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.paired import Evaluation, evaluate
from sb3_greendc.evaluation.policy_specs import BaselineSpec, ModelSpec, parse_source, split_name
from sb3_greendc.runs.folder import MANIFEST
from sb3_greendc.runs.models import load_model, save_model

pytestmark = pytest.mark.usefixtures("toy")


def replay(env_id: str, seed: int, act: Any, **kwargs: Any) -> dict[str, Any]:
    """Run one episode of the single environment by hand; ``act`` maps the observation to an action."""
    env = gym.make(env_id, **kwargs)
    observation, _ = env.reset(seed=seed)
    result: dict[str, Any] = {"return": 0.0, "cost": 0.0, "length": 0}
    while True:
        observation, reward, terminated, truncated, info = env.step(act(observation))
        result["return"] += float(reward)
        result["cost"] += info.get("cost", np.nan)
        result["length"] += 1
        if terminated or truncated:
            return {**result, **info.get("episode_metrics", {})}


def test_every_row_is_the_single_environment_run_by_hand() -> None:
    results = evaluate(["all", "half"], "Toy", n_episodes=7, seed=11, batch_size=3)
    assert list(results.columns) == [
        *("policy", "run", "env_id", "episode", "seed", "return", "length", "cost", "total", "steps")
    ]
    assert len(results) == 14
    assert (results["env_id"] == "Toy-v1").all()
    for row in results.to_dict("records"):
        assert row["seed"] == 11 + row["episode"]
        level = {"all": 1.0, "half": 0.5}[row["policy"]]
        expected = replay("Toy-v1", row["seed"], lambda _, level=level: np.array([level], dtype=np.float32))
        for key, value in expected.items():
            assert row[key] == pytest.approx(value, abs=1e-6), key


def test_batch_size_changes_nothing() -> None:
    results = [evaluate(["half"], "Toy", 10, seed=3, batch_size=size) for size in (1, 4, 128)]
    for other in results[1:]:
        pd.testing.assert_frame_equal(results[0], other)


def test_environment_keywords() -> None:
    results = evaluate(["all"], "Toy", 3, env_kwargs={"max_steps": 4, "min_steps": 4})
    assert (results["length"] == 4).all()
    with pytest.raises(TypeError, match="unknown option 'max_step'"):
        evaluate(["all"], "Toy", 3, env_kwargs={"max_step": 4})


def test_any_object_with_predict_keeps_its_state() -> None:
    class Counter:
        """Acts as a function of how often it was asked; forgets where an episode starts."""

        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            count = np.zeros(len(observation)) if state is None else np.where(episode_start, 0, state + 1)
            np.testing.assert_allclose(observation[:, 1], count / 9, rtol=1e-6)
            return (count[:, None] / 10).astype(np.float32), count

    results = evaluate({"counter": Counter(), "base": "half"}, "Toy", 5)
    assert results["policy"].unique().tolist() == ["counter", "base"]
    first = results[results["policy"] == "counter"]
    np.testing.assert_allclose(first["cost"], first["length"] * (first["length"] - 1) / 20, rtol=1e-6)


def test_a_model_plays_its_most_likely_action() -> None:
    env = make_vec_env("DiscreteToy", 2, seed=0)
    model = DQN("MlpPolicy", env, seed=0)
    results = evaluate([model], "DiscreteToy", 4, seed=5)
    assert results["policy"].tolist() == ["DQN"] * 4
    for row in results.to_dict("records"):
        expected = replay(
            "DiscreteToy-v1", row["seed"], lambda obs: model.predict(obs, deterministic=True)[0]
        )
        assert row["return"] == pytest.approx(expected["return"], abs=1e-6)


def test_stochastic_actions_are_seeded_and_leave_torch_alone() -> None:
    model = PPO("MlpPolicy", make_vec_env("Toy", 2), seed=0)
    th.manual_seed(1)
    expected = th.rand(3)
    th.manual_seed(1)
    first = evaluate([model], "Toy", 4, deterministic=False)
    assert th.equal(th.rand(3), expected)
    pd.testing.assert_frame_equal(first, evaluate([model], "Toy", 4, deterministic=False))
    assert not np.allclose(first["return"], evaluate([model], "Toy", 4)["return"])


def test_masked_policies_get_masks() -> None:
    """The toy raises on an invalid action, so that this fails if masks are lost."""
    model = MaskablePPO("MultiInputPolicy", make_vec_env("MaskedToy", 2, seed=0), seed=0)
    results = evaluate([model], "MaskedToy", 4, deterministic=False)
    assert len(results) == 4

    def act(observation: dict[str, np.ndarray]) -> Any:
        return model.predict(observation, action_masks=observation["action_mask"], deterministic=True)[0]

    for row in evaluate([model], "MaskedToy", 4).to_dict("records"):
        assert row["return"] == pytest.approx(replay("MaskedToy-v0", row["seed"], act)["return"], abs=1e-6)


def test_masked_policy_without_masks_is_an_error() -> None:
    model = MaskablePPO("MlpPolicy", make_vec_env("DiscreteToy", 1), seed=0)
    with pytest.raises(ValueError, match="'MaskablePPO' needs action masks"):
        evaluate([model], "DiscreteToy", 2)


def test_masks_that_a_policy_can_do_without() -> None:
    class Optional:
        """Takes masks where there are any."""

        def predict(self, obs, state=None, episode_start=None, deterministic=False, action_masks=None):
            if isinstance(obs, dict):
                np.testing.assert_array_equal(action_masks, obs["action_mask"])
                return action_masks.argmax(axis=1), None
            assert action_masks is None
            return np.zeros(len(obs), dtype=int), None

    assert len(evaluate([Optional()], "MaskedToy", 2)) == 2
    assert len(evaluate([Optional()], "DiscreteToy", 2)) == 2


def test_recurrent_states_are_carried_and_reset() -> None:
    env = make_vec_env("Toy", 2, seed=0)
    model = RecurrentPPO("MlpLstmPolicy", env, seed=0, policy_kwargs={"lstm_hidden_size": 8})
    with th.no_grad():  # an LSTM whose output depends strongly on what it has seen
        for parameter in model.policy.lstm_actor.parameters():
            parameter.mul_(5.0)
    results = evaluate([model], "Toy", 5, seed=2)

    for row in results.to_dict("records"):
        state: Any = None
        start = np.ones(1, dtype=bool)

        def act(observation: np.ndarray) -> Any:
            nonlocal state, start
            actions, state = model.predict(observation[None], state, start, deterministic=True)
            start = np.zeros(1, dtype=bool)
            return actions[0]

        assert row["return"] == pytest.approx(replay("Toy-v1", row["seed"], act)["return"], abs=1e-5)


class TestSavedModels:
    def train(self, folder: Path, normalize: bool = False, algorithm: str | None = "ppo") -> PPO:
        env = make_vec_env("Toy", 2, seed=0)
        if normalize:
            env = VecNormalize(env)
            env.obs_rms.mean[:] = [0.5, 0.2, -0.3]  # type: ignore[union-attr]
            env.obs_rms.var[:] = [0.1, 2.0, 0.5]  # type: ignore[union-attr]
        model = PPO("MlpPolicy", env, seed=0, n_steps=8, batch_size=16)
        save_model(model, folder, {} if algorithm is None else {"algorithm": algorithm})
        return model

    def test_zip_folder_and_prefix_are_the_model_in_memory(self, tmp_path: Path) -> None:
        model = self.train(tmp_path / "run")
        zipped, folder = str(tmp_path / "run" / "model.zip"), str(tmp_path / "run")
        results = evaluate({"memory": model, "zip": zipped, "folder": folder}, "Toy", 4)
        returns = results.pivot(index="seed", columns="policy", values="return")
        assert (returns["zip"] == returns["memory"]).all()
        assert (returns["folder"] == returns["memory"]).all()
        (tmp_path / "run" / "run.json").unlink()
        (tmp_path / "run" / MANIFEST).unlink()
        assert isinstance(load_model(zipped).model, PPO)
        model.save(zipped)  # SB3's form, which names no algorithm
        with pytest.raises(ValueError, match="ALGORITHM:"):
            load_model(zipped, trust=True)
        prefixed = evaluate([f"ppo:{zipped}"], "Toy", 4, trust=True)
        assert prefixed["policy"].tolist() == [f"ppo:{zipped}"] * 4
        np.testing.assert_array_equal(prefixed["return"], returns["memory"])

    def test_normaliser_travels_with_the_model(self, tmp_path: Path) -> None:
        model = self.train(tmp_path, normalize=True)
        normalizer = model.get_vec_normalize_env()
        assert normalizer is not None
        results = evaluate({"memory": model, "disk": str(tmp_path)}, "Toy", 4)

        def act(observation: np.ndarray) -> Any:
            return model.predict(normalizer.normalize_obs(observation), deterministic=True)[0]

        for row in results.to_dict("records"):
            assert row["return"] == pytest.approx(replay("Toy-v1", row["seed"], act)["return"], abs=1e-6)
        plain = evaluate({"policy": model.policy}, "Toy", 4)
        assert not np.allclose(plain["return"], results["return"][:4])
        assert normalizer.training

    def test_missing_normaliser(self, tmp_path: Path) -> None:
        self.train(tmp_path, normalize=True)
        (tmp_path / "normalizer.json").unlink()
        with pytest.raises(ValueError, match=r"normalizer\.json: missing"):
            evaluate([str(tmp_path)], "Toy", 1)

    def test_stale_normaliser_of_an_earlier_run_is_left_alone(self, tmp_path: Path) -> None:
        self.train(tmp_path, normalize=True)
        self.train(tmp_path)
        assert load_model(tmp_path).normalizer is None

    @pytest.mark.parametrize("content", [b"", b"not a zip", None])
    def test_damaged_files(self, tmp_path: Path, content: bytes | None) -> None:
        self.train(tmp_path)
        path = tmp_path / "model.zip"
        path.write_bytes(path.read_bytes()[:5000] if content is None else content)
        with pytest.raises(ValueError, match=r"model\.zip: damaged, or of another run"):
            load_model(path)
        (tmp_path / MANIFEST).unlink()
        with pytest.raises(ValueError, match=r"model .*model\.zip: not a whole model"):
            load_model(path)

    def test_missing_file(self) -> None:
        with pytest.raises(ValueError, match=r"model runs/none\.zip: no such file"):
            evaluate(["runs/none.zip"], "Toy", 1)

    def test_unknown_algorithm(self, tmp_path: Path) -> None:
        self.train(tmp_path, algorithm="pppo")
        with pytest.raises(ValueError, match="unknown algorithm 'pppo'; did you mean 'ppo'"):
            load_model(tmp_path)


class TestBadInput:
    def test_unknown_policy(self) -> None:
        with pytest.raises(ValueError, match=r"unknown policy 'hald'; did you mean 'half'.*'all', 'half'"):
            evaluate(["hald"], "Toy", 1)

    def test_no_baselines(self) -> None:
        with pytest.raises(ValueError, match=r"unknown policy 'al' \(.*'pretrained', or 'random'\)"):
            evaluate(["al"], "CartPole-v1", 1)

    def test_a_baseline_of_another_family(self) -> None:
        with pytest.raises(ValueError, match=r"policy 'hvf', a baseline of resource_pool \(a saved .*'half'"):
            evaluate(["hvf"], "Toy", 1)
        message = r"policy 'hvf', a baseline of resource_pool; an id .* if greendc\.register_variant makes it"
        with pytest.raises(ValueError, match=message):
            evaluate(["hvf"], "CartPole-v1", 1)

    def test_unknown_environment(self) -> None:
        with pytest.raises(ValueError, match="did you mean"):
            evaluate(["all"], "DiscreteTooy", 1)

    def test_model_of_another_space(self) -> None:
        discrete = PPO("MlpPolicy", make_vec_env("DiscreteToy", 1))
        with pytest.raises(ValueError, match=rf"actions Discrete\({N_ACTIONS}\), the environment has Box"):
            evaluate([discrete], "Toy", 1)
        cartpole = PPO("MlpPolicy", make_vec_env("CartPole-v1", 1))
        with pytest.raises(ValueError, match=r"'PPO' was made for observations Box\(4,\) float32"):
            evaluate([cartpole], "DiscreteToy", 1)

    def test_twice_the_same_name(self) -> None:
        with pytest.raises(ValueError, match="'all' given twice"):
            evaluate(["all", "all"], "Toy", 1)

    def test_not_a_list(self) -> None:
        with pytest.raises(ValueError, match="must be a list"):
            evaluate("all", "Toy", 1)

    def test_not_a_policy(self) -> None:
        with pytest.raises(ValueError, match="has no predict"):
            evaluate([3], "Toy", 1)  # type: ignore[list-item]

    @pytest.mark.parametrize(
        "options",
        [
            {"n_episodes": 0},
            {"n_episodes": "a"},
            {"n_episodes": 1.5},
            {"seed": -1},
            {"seed": None},
            {"batch_size": 0},
            {"batch_size": 2.0},
            {"deterministic": "x"},
        ],
    )
    def test_options(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=f"^{next(iter(options))}=.*: must be "):
            evaluate(["all"], "Toy", **options)


def test_other_packages_environments() -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 1), seed=0)
    results = evaluate([model], "CartPole-v1", 3, seed=4)
    assert results["cost"].isna().all()
    for row in results.to_dict("records"):
        expected = replay(
            "CartPole-v1", row["seed"], lambda obs: model.predict(obs, deterministic=True)[0].item()
        )
        assert row["return"] == expected["return"] == row["length"]


SMALL_MONTH = {"days": 1, "month": "2019-05"}


class Replay:
    """Plays a curve for each episode, hour by hour."""

    def __init__(self, curves: np.ndarray, levels: int | None) -> None:
        self.curves, self.levels = curves, levels

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        hour = 0 if state is None else state + 1
        fractions = self.curves[: len(observation), min(hour, self.curves.shape[1] - 1)]
        if self.levels is None:
            return fractions.astype(np.float32)[:, None], hour
        return np.rint(fractions * (self.levels - 1)).astype(int), hour


@pytest.mark.parametrize(("env_id", "levels"), [("VCC-2019", None), ("DiscreteVCC-2019", 11)])
def test_best_known_is_never_beaten(env_id: str, levels: int | None) -> None:
    """Without a search of its own it must follow the best of the others, in whatever order they are given."""
    curves = [best_known(env_id, seed, budget=150, **SMALL_MONTH)[0] for seed in range(4, 7)]
    policies = {
        "best": "best_known:budget=0",
        "threshold": "moer_threshold:low=0.3,quantile=0.6",
        "searched": Replay(np.array(curves), levels),
        "untrained": PPO("MlpPolicy", make_vec_env(env_id, 1, **SMALL_MONTH), seed=0),
    }
    results = evaluate(policies, env_id, 3, seed=4, env_kwargs=SMALL_MONTH)
    assert results["policy"].unique().tolist() == list(policies)
    returns = results.pivot(index="seed", columns="policy", values="return")
    others = returns.drop(columns="best").max(axis=1)
    assert (returns["best"] >= others - 1e-9).all()
    alone = evaluate({"best": "best_known:budget=0"}, env_id, 3, seed=4, env_kwargs=SMALL_MONTH)
    assert (alone["return"].to_numpy() < others.to_numpy() - 1e-9).any(), "it learned nothing from the others"


def test_a_policy_that_considers_the_others_gets_their_actions_in_its_episodes() -> None:
    class Copycat:
        """Does what the first of the others did."""

        def __init__(self) -> None:
            self.seen: list[list[np.ndarray]] = []

        def consider(self, actions: list[np.ndarray]) -> None:
            self.seen.append(actions)

        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            step = 0 if state is None else state + 1
            first = self.seen[-2]  # this batch's recordings come last: of "all", then of "half"
            actions = [of_env[min(step, len(of_env) - 1)] for of_env in first]
            return np.array(actions), step

    cat = Copycat()
    results = evaluate({"cat": cat, "all": "all", "half": "half"}, "Toy", 5, batch_size=3)
    assert [len(recording) for recording in cat.seen] == [3, 3, 2, 2]
    lengths = results[results["policy"] == "half"]["length"].tolist()
    assert [len(actions) for i in (0, 2) for actions in cat.seen[i]] == lengths
    assert all((actions == 0.5).all() for actions in cat.seen[1])
    cats = results[results["policy"] == "cat"].drop(columns="policy").reset_index(drop=True)
    alls = results[results["policy"] == "all"].drop(columns="policy").reset_index(drop=True)
    pd.testing.assert_frame_equal(cats, alls)


class TestEngines:
    policies: ClassVar[list[str]] = ["moer_threshold:low=0.4", "always_on", "best_known:budget=60"]

    def test_processes_give_the_same_table(self, tmp_path: Path) -> None:
        for run in range(2):
            model = PPO("MlpPolicy", make_vec_env("VCC-2019", 1, **SMALL_MONTH), seed=run)
            save_model(model, tmp_path / f"seed_{run}", {"algorithm": "ppo"})
        policies = {"ppo": f"{tmp_path}/seed_*", **{name: name for name in self.policies}}
        arguments: dict[str, Any] = {"env_kwargs": SMALL_MONTH, "deterministic": False}
        serial = evaluate(policies, "VCC-2019", 3, batch_size=2, **arguments)
        assert serial.groupby("policy")["run"].nunique()["ppo"] == 2
        parallel = evaluate(policies, "VCC-2019", 3, batch_size=2, engine="process", jobs=2, **arguments)
        pd.testing.assert_frame_equal(serial, parallel)

    def test_what_cannot_travel_is_told_before_anything_runs(self) -> None:
        class Local:
            def predict(self, observation, state=None, episode_start=None, deterministic=False):
                raise AssertionError("it ran")

        with pytest.raises(ValueError, match="policy 'local' cannot be sent to other processes"):
            evaluate({"local": Local()}, "Toy", 1, engine="process")

    def test_unknown_engine(self) -> None:
        with pytest.raises(ValueError, match=r"engine='proces': must be one of.*did you mean 'process'"):
            evaluate(["all"], "Toy", 1, engine="proces")


class TestMasksAreNotLost:
    def test_model_whose_environment_had_masks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An algorithm of ours that took the environment's masks; its observations show none."""
        env = make_vec_env("DiscreteToy", 1)
        masked = make_vec_env("DiscreteToy", 1)
        monkeypatch.setattr(masked, "has_attr", lambda name: name == "action_masks")
        model = PIDLagrangianPPO("MlpPolicy", masked, cost_limit=1.0)
        with pytest.raises(ValueError, match="'model' needs action masks, and the environment has none"):
            evaluate({"model": model}, "DiscreteToy", 1)
        model.set_env(env)
        assert len(evaluate({"model": model}, "DiscreteToy", 1)) == 1
        save_model(model, tmp_path, {"algorithm": "pid_ppo", "env_id": "MaskedToy-v0"})
        with pytest.raises(ValueError, match="'saved' needs action masks"):
            evaluate({"saved": str(tmp_path)}, "DiscreteToy", 1)

    def test_masks_in_observations_are_enough(self) -> None:
        """The toy raises on an invalid action."""
        model = DiscreteSAC("MultiInputPolicy", make_vec_env("MaskedToy", 2, seed=0), seed=0)
        assert len(evaluate([model], "MaskedToy", 3, deterministic=False)) == 3


class TestOptionsOfBaselines:
    def test_they_reach_the_baseline(self) -> None:
        results = evaluate(
            ["constant:level=0.5", "low=constant:level=0.4"], "VCC-2019", 1, env_kwargs=SMALL_MONTH
        )
        assert results["policy"].tolist() == ["constant:level=0.5", "low"]
        np.testing.assert_allclose(results["mean_vcc"], [0.5, 0.4])

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (
                "hvf:dispach=easy",
                "hvf: unknown option 'dispach'; did you mean 'dispatch'.*known: dispatch, scope",
            ),
            ("hvf:dispatch=eazy", "dispatch='eazy': must be one of 'skip', 'block', 'reserve', 'easy'"),
            ("hfv:dispatch=easy", "unknown policy 'hfv:dispatch=easy'; did you mean 'hvf'"),
            ("hvf:easy", "policy 'hvf:easy': easy: must be key=value"),
            ("hvf:", "no option after ':'"),
            ("x=runs/none_*", "models runs/none_.*: none there"),
        ],
    )
    def test_wrong_ones_are_told_before_anything_runs(self, policy: str, message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message):
            Evaluation([policy], "ResourcePool-10")


def test_policies_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = ("hvf", "random")
    assert split_name("easy=hvf:dispatch=easy") == ("easy", "hvf:dispatch=easy")
    assert split_name("hvf:dispatch=easy") == ("hvf:dispatch=easy", "hvf:dispatch=easy")
    assert split_name("runs/a=1/model.zip") == ("runs/a=1/model.zip", "runs/a=1/model.zip")
    assert split_name("pid@15=runs/a=1") == ("pid@15", "runs/a=1")
    spec = parse_source("hvf:dispatch=easy, limit=1e3,starts=[1, 2]", known, "E")
    assert spec == BaselineSpec("hvf", {"dispatch": "easy", "limit": 1000.0, "starts": [1, 2]})
    monkeypatch.chdir(tmp_path)
    for run in (1, 2, 10):
        (tmp_path / "runs" / f"seed_{run}").mkdir(parents=True)
        (tmp_path / "runs" / f"seed_{run}" / "model.zip").touch()
    (tmp_path / "runs" / "seed_3").mkdir()  # not of a run
    found = ("ppo:runs/seed_1", "ppo:runs/seed_2", "ppo:runs/seed_10")
    assert parse_source("ppo:runs/seed_*", known, "E") == ModelSpec(found)
    (tmp_path / "random").mkdir()
    assert parse_source("random", known, "E") == BaselineSpec("random")
    assert parse_source("./random", known, "E") == ModelSpec(("./random",))


@pytest.mark.parametrize("sign", ["progress.csv", MANIFEST, ".lock"])
@pytest.mark.parametrize(
    "pattern", ["runs/seed_*", "ppo:runs/seed_*", "runs/seed_*/model.zip", "runs/seed_[!1]*"]
)
def test_a_run_without_a_model_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str, pattern: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for run in range(11):
        Path(f"runs/seed_{run}").mkdir(parents=True)
        Path(f"runs/seed_{run}", sign if run in (2, 9) else "model.zip").touch()
    with pytest.raises(
        ValueError, match=r"no model\.zip in runs/seed_2, runs/seed_9 \(unfinished or diverged\)"
    ):
        parse_source(pattern, (), "E")
    assert parse_source("runs/seed_[13]", (), "E") == ModelSpec(("runs/seed_1", "runs/seed_3"))


def test_several_runs_of_one_policy() -> None:
    models = [DQN("MlpPolicy", make_vec_env("DiscreteToy", 1), seed=seed) for seed in range(2)]
    results = evaluate({"dqn": models, "all": "all"}, "DiscreteToy", 3)
    assert results["run"].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    for run, model in enumerate(models):
        alone = evaluate({"dqn": model}, "DiscreteToy", 3)["return"]
        np.testing.assert_array_equal(alone, results[results["run"] == run]["return"][:3])
    with pytest.raises(ValueError, match="'dqn': an empty list"):
        evaluate({"dqn": []}, "DiscreteToy", 3)
