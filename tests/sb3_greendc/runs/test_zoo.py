from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch as th
from stable_baselines3 import PPO, TD3
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecNormalize
from toy_simulator import MaskedToySimulator, ToySimulator

import sb3_greendc.runs.hyperparameters
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class, hyperparameters_of, keywords_of
from sb3_greendc.core.arguments import positive_integer
from sb3_greendc.core.expressions import read_mapping
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.extractors import ForecastExtractor, MaskedActorCriticPolicy
from sb3_greendc.runs.hyperparameters import block_for, load_hyperparameters, read_hyperparameters, zoo_file
from sb3_greendc.runs.kinds import _annotation, checked

SHIPPED = Path(__file__).resolve().parents[3] / "zoo_hparams"


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a file for an algorithm into a folder that is looked in first."""
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))

    def write(text: str, algorithm: str = "ppo") -> Path:
        path = tmp_path / f"{algorithm}.yml"
        path.write_text(text)
        return path

    return write


class TestFiles:
    def test_every_algorithm_has_a_file_whose_blocks_are_all_right(self) -> None:
        for algorithm in ALGORITHMS:
            blocks = yaml.load(SHIPPED / f"{algorithm}.yml")
            assert "default" in blocks
            for heading in blocks:
                env_id = heading.replace("*", "2019-v1")
                loaded = load_hyperparameters(algorithm, env_id)
                assert loaded.settings == blocks[heading]
                assert loaded.n_timesteps is not None

    def test_order_of_folders(self, zoo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert zoo_file("ppo") == SHIPPED / "ppo.yml"
        path = zoo("default: {}")
        assert zoo_file("ppo") == path
        installed = tmp_path / "package" / "_data" / "zoo_hparams" / "a2c.yml"
        installed.parent.mkdir(parents=True)
        installed.write_text("default: {}")
        monkeypatch.setattr(
            sb3_greendc.runs.hyperparameters,
            "__file__",
            str(tmp_path / "package" / "runs" / "hyperparameters.py"),
        )
        assert zoo_file("a2c") == installed

    def test_no_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            sb3_greendc.runs.hyperparameters,
            "__file__",
            str(tmp_path / "package" / "runs" / "hyperparameters.py"),
        )
        with pytest.raises(ValueError, match=r"no hyperparameter file ppo\.yml \(looked in .*GREENDC_ZOO"):
            zoo_file("ppo")

    def test_blocks(self) -> None:
        blocks = {"VCC-2019-v0": 1, "VCC-2019": 2, "VCC-*": 3, "*VCC-*": 4, "default": 5}
        assert block_for("VCC-2019-v0", blocks) == "VCC-2019-v0"
        assert block_for("VCC-2019-v1", blocks) == "VCC-2019"
        assert block_for("VCC-2021-v1", blocks) == "VCC-*"
        assert block_for("DiscreteVCC-2019-v1", blocks) == "*VCC-*"
        assert block_for("CartPole-v1", blocks) == "default"
        assert block_for("CartPole-v1", {"VCC-*": 3}) is None


class TestValues:
    def test_rl_zoo3_format(self, zoo: Any) -> None:
        """Anchors, schedules, floats without a point, dict(...) strings, as rl-zoo3 writes them."""
        zoo(
            """
default: &defaults
  normalize: "{'norm_obs': True, 'norm_reward': False}"
  n_envs: 4
  n_timesteps: !!float 1e6
  policy: 'MlpPolicy'
  n_steps: 64
  gamma: 0.98
  learning_rate: lin_2e-4
  clip_range: lin_0.2
  ent_coef: 1e-3
  policy_kwargs: "dict(log_std_init=-2, activation_fn=nn.ReLU, net_arch=dict(pi=[32, 16], vf=[8]))"
Pendulum-v1:
  <<: *defaults
  gamma: 0.9
"""
        )
        loaded = load_hyperparameters("ppo", "Pendulum-v1")
        assert (loaded.n_envs, loaded.n_timesteps, loaded.policy) == (4, 1_000_000, "MlpPolicy")
        assert loaded.normalize == {"norm_obs": True, "norm_reward": False}
        env = loaded.wrap(make_vec_env("Pendulum-v1", loaded.n_envs))
        model = loaded.build(env, seed=0)
        assert isinstance(model, PPO)
        assert isinstance(env, VecNormalize)
        assert (env.norm_obs, env.norm_reward, env.gamma) == (True, False, 0.9)
        assert (model.gamma, model.ent_coef, model.n_steps) == (0.9, 0.001, 64)
        assert model.lr_schedule(1.0) == 2e-4
        assert model.lr_schedule(0.25) == pytest.approx(5e-5)
        assert model.clip_range(0.5) == pytest.approx(0.1)
        shapes = [tuple(layer.weight.shape) for layer in model.policy.mlp_extractor.policy_net[::2]]
        assert shapes == [(32, 3), (16, 32)]
        assert isinstance(model.policy.mlp_extractor.value_net[1], th.nn.ReLU)
        assert model.policy.log_std.item() == -2

    def test_policy_kwargs_as_a_mapping(self, zoo: Any) -> None:
        zoo("default: {policy_kwargs: {net_arch: [8], activation_fn: nn.ELU, optimizer_class: SGD}}")
        kwargs = load_hyperparameters("ppo", "Toy-v1").arguments["policy_kwargs"]
        assert kwargs == {"net_arch": [8], "activation_fn": th.nn.ELU, "optimizer_class": th.optim.SGD}

    def test_action_noise(self, zoo: Any) -> None:
        zoo("default: {noise_type: normal, noise_std: 0.3, train_freq: [1, episode]}", "td3")
        loaded = load_hyperparameters("td3", "Toy-v1")
        model = loaded.build(SimulatorVecEnv(ToySimulator(1)))
        assert isinstance(model, TD3)
        assert isinstance(model.action_noise, NormalActionNoise)
        assert model.action_noise._sigma.tolist() == pytest.approx([0.3])
        assert model.train_freq.unit.value == "episode"

    def test_overrides(self) -> None:
        loaded = load_hyperparameters("ppo", "VCC-2019-v1", {"gamma": 0.5, "n_envs": 2, "normalize": True})
        assert (loaded.arguments["gamma"], loaded.n_envs, loaded.normalize) == (0.5, 2, {})
        assert loaded.settings["gamma"] == 0.5

    def test_a_preset_replaces_what_the_file_says_of_its_options(self) -> None:
        given = {"preset": "rare", "target_entropy_ratio_final": None}
        chosen = load_hyperparameters("discrete_sac", "ResourcePool-10-v0", given)
        assert "tau" not in chosen.settings and chosen.settings["batch_size"] == 256
        model: Any = chosen.build(make_vec_env("ResourcePool-10-v0", 2))
        assert (model.tau, model.soft_critic, model.ent_coef) == (1.0, False, 0.0)

    def test_a_preset_and_a_contradiction_given_together_are_refused(self) -> None:
        chosen = load_hyperparameters("discrete_sac", "ResourcePool-10-v0", {"preset": "rare", "tau": 0.5})
        with pytest.raises(ValueError, match=r"tau=0\.5 contradicts preset='rare'"):
            chosen.build(make_vec_env("ResourcePool-10-v0", 2))

    def test_dict_observations_get_a_policy_for_them(self) -> None:
        env = SimulatorVecEnv(MaskedToySimulator(2))
        model = load_hyperparameters("maskable_ppo", "MaskedToy-v0").build(env)
        assert type(model.policy).__name__ == "MaskableMultiInputActorCriticPolicy"

    def test_extractors_by_name(self, zoo: Any) -> None:
        zoo("default: {policy_kwargs: {features_extractor: forecast, features_extractor_kwargs: {a: 1}}}")
        kwargs = load_hyperparameters("ppo", "Toy-v1").arguments["policy_kwargs"]
        assert kwargs["features_extractor_class"] is ForecastExtractor
        path = zoo("default: {policy_kwargs: {features_extractor: forcast}}")
        with pytest.raises(ValueError, match=f"{path}, line 1: policy_kwargs: .*did you mean 'forecast'"):
            load_hyperparameters("ppo", "Toy-v1")

    def test_policies_by_name(self, zoo: Any) -> None:
        zoo("default: {policy: MaskedActorCriticPolicy}")
        model = load_hyperparameters("ppo", "Toy-v1").build(SimulatorVecEnv(MaskedToySimulator(2)))
        assert type(model.policy) is MaskedActorCriticPolicy
        zoo("default: {policy: MlpPolcy}")
        with pytest.raises(ValueError, match="ppo does not fit: Policy MlpPolcy unknown"):
            load_hyperparameters("ppo", "Toy-v1").build(SimulatorVecEnv(ToySimulator(2)))

    def test_keywords_follow_parents(self) -> None:
        class Child(PPO):
            def __init__(self, *args: Any, cost_limit: float = 1.0, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)

        assert keywords_of(Child) == ["cost_limit", *keywords_of(PPO)]
        assert "gamma" in keywords_of(PPO)

    def test_every_kind_is_known(self) -> None:
        for algorithm in ALGORITHMS:
            for key in hyperparameters_of(algorithm):
                assert _annotation(algorithm_class(algorithm), key) is not Any, (algorithm, key)

    def test_every_default_is_of_its_kind(self) -> None:
        for algorithm in ALGORITHMS:
            owner = algorithm_class(algorithm)
            defaults = {p.name: p.default for p in inspect.signature(owner).parameters.values()}
            for key in set(hyperparameters_of(algorithm)) & set(defaults):
                value = defaults[key]
                if value is not inspect.Parameter.empty:
                    assert checked(owner, key, value, value) == value

    def test_whole_numbers_may_be_written_as_floats(self) -> None:
        loaded = load_hyperparameters("sac", "Toy-v1", {"buffer_size": 1e6, "train_freq": [4, "step"]})
        assert type(loaded.arguments["buffer_size"]) is int
        assert loaded.arguments["train_freq"] == (4, "step")
        assert (
            load_hyperparameters("sac", "Toy-v1", {"ent_coef": "auto_0.1"}).settings["ent_coef"] == "auto_0.1"
        )

    def test_hyperparameters(self) -> None:
        for algorithm in ALGORITHMS:
            known = hyperparameters_of(algorithm)
            assert {"policy_kwargs", "learning_rate"} <= {*known}
            assert not {"self", "env", "policy", "seed", "verbose", "device"} & {*known}
        assert {"cost_limit", "kp", "clip_range", "n_steps"} <= {*hyperparameters_of("pid_ppo")}


class TestBadInput:
    def test_unknown_key_names_file_line_and_nearest(self, zoo: Any) -> None:
        path = zoo("default:\n  gamma: 0.9\n\nVCC-*:\n  # why\n  gama: 0.9\n")
        with pytest.raises(ValueError) as error:
            load_hyperparameters("ppo", "VCC-2019-v1")
        assert str(error.value) == (
            f"{path}, line 6: gama: ppo has no such hyperparameter; did you mean 'gamma'?"
        )

    def test_key_from_an_anchor_is_found_where_it_is_written(self, zoo: Any) -> None:
        path = zoo("base: &base\n  lerning_rate: 1\nVCC-*:\n  <<: *base\n  gamma: 0.9\n")
        with pytest.raises(ValueError, match=f"{path}, line 2: lerning_rate"):
            load_hyperparameters("ppo", "VCC-2019-v1")

    def test_unknown_override(self) -> None:
        with pytest.raises(ValueError, match=r"hyperparameter gama=0\.9: ppo has no such .*'gamma'"):
            load_hyperparameters("ppo", "CartPole-v1", {"gama": 0.9})

    def test_unknown_algorithm(self) -> None:
        with pytest.raises(ValueError, match=r"unknown algorithm 'pp0'; did you mean 'ppo'"):
            load_hyperparameters("pp0", "CartPole-v1")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("default: {learning_rate: lin_fast}", "line 1: learning_rate: 'lin_fast'"),
            ("default:\n  n_envs: 0", "line 2: n_envs: 0: must be a positive whole number"),
            ("default:\n  n_timesteps: 1.5", "line 2: n_timesteps: 1.5"),
            ("default:\n  policy_kwargs: dict(a=open('x'))", "line 2: policy_kwargs: .*only numbers"),
            ("default:\n  policy_kwargs: {activation_fn: nn.ReLUU}", "did you mean 'ReLU'"),
            ("default:\n  policy_kwargs: 3", "line 2: policy_kwargs: 3: not a mapping"),
            ("default:\n  normalize: maybe(", "line 2: normalize: 'maybe\\('"),
            ("default: 3", "line 1: 'default' must map names to values"),
            ("default:\n  3: 4", "line 2: 3: ppo has no such hyperparameter"),
            ("- 3", "must map environment ids"),
            ("3: {}\ndefault: {}", "must map environment ids"),
            ("VCC-*: {}", "no block for 'CartPole-v1'"),
            ("default: {\n  gamma: 1", "line 2: not valid YAML"),
            ("default: !!python/object/apply:os.getcwd []", "line 1: not valid YAML"),
        ],
    )
    def test_malformed_file(self, zoo: Any, text: str, message: str) -> None:
        path = zoo(text)
        with pytest.raises(ValueError, match=message) as error:
            load_hyperparameters("ppo", "CartPole-v1")
        assert str(error.value).startswith(str(path))

    def test_unknown_noise(self, zoo: Any) -> None:
        zoo("default: {noise_type: pink}", "td3")
        with pytest.raises(ValueError, match="noise_type: 'pink': must be one of normal"):
            load_hyperparameters("td3", "Toy-v1")

    @pytest.mark.parametrize(
        ("algorithm", "key", "value", "message"),
        [
            ("a2c", "gamma", "abc", "'abc': must be a number"),
            ("a2c", "gamma", 1.5, "1.5: must be from 0 to 1"),
            ("a2c", "gamma", math.nan, "nan: must be a number"),
            ("a2c", "gamma", True, "True: must be a number"),
            ("a2c", "gamma", "lin_0.9", "'lin_0.9': must be a number"),
            ("a2c", "learning_rate", "lin_nan", "'lin_nan': a linear schedule is written lin_NUMBER"),
            ("a2c", "learning_rate", "lin_inf", "'lin_inf': a linear schedule is written lin_NUMBER"),
            ("a2c", "gae_lambda", [1], "[1]: must be a number"),
            ("a2c", "n_steps", 0, "0: must be 1 or more"),
            ("a2c", "n_steps", 1.5, "1.5: must be a whole number"),
            ("a2c", "ent_coef", "abc", "'abc': must be a number"),
            ("a2c", "max_grad_norm", "abc", "'abc': must be a number"),
            ("a2c", "stats_window_size", "abc", "'abc': must be a whole number"),
            ("a2c", "use_rms_prop", "abc", "'abc': must be true or false"),
            ("a2c", "policy", 3, "3: must be the name of a policy"),
            ("a2c", "rollout_buffer_class", "x", "'x': must be a class or null"),
            ("a2c", "normalize", "yes", "'yes': must be true, false, a mapping or dict(...)"),
            ("a2c", "policy_kwargs", "abc", "'abc': not a mapping or dict(...)"),
            ("a2c", "policy_kwargs", "nn.Tanh", "'nn.Tanh': not a mapping or dict(...)"),
            ("a2c", "policy_kwargs", {"net_arch": 64}, "net_arch=64: must be a list of whole numbers"),
            ("a2c", "policy_kwargs", {"net_arch": ["a"]}, "net_arch=['a']: must be a list of whole"),
            ("a2c", "policy_kwargs", {"net_arch": [64, 0]}, "net_arch=[64, 0]: must be a list of whole"),
            ("a2c", "policy_kwargs", {"net_arch": [True]}, "net_arch=[True]: must be a list of whole"),
            ("a2c", "policy_kwargs", {"net_arch": {"pi": 64}}, "net_arch={'pi': 64}: must be a list of"),
            ("a2c", "normalize", {"clip_obs": "abc"}, "'abc': must be a number"),
            ("ppo", "clip_range_vf", "abc", "'abc': must be a number or a schedule (lin_NUMBER) or null"),
            ("pid_ppo", "kp", "abc", "'abc': must be a number"),
            ("pid_ppo", "cost_limit", "abc", "'abc': must be a number or null"),
            ("recurrent_pid_ppo", "n_epochs", 0, "0: must be 1 or more"),
            ("sac", "train_freq", [1], "[1]: must be a whole number or [a whole number, text]"),
            ("sac", "train_freq", [0, "step"], "[0, 'step']: must be 1 or more"),
            ("sac", "learning_starts", "abc", "'abc': must be a whole number"),
            ("sac", "gradient_steps", -2, "-2: must be -1 or more"),
            ("sac", "ent_coef", "abc", "'abc': must be a number, auto or auto_NUMBER"),
            ("td3", "noise_type", [1], "[1]: must be one of normal"),
            ("td3", "noise_std", "abc", "'abc': must be a number, 0 or more"),
            ("td3", "gradient_steps", 0, "0: must be 1 or more, or -1"),
            ("td3", "noise_std", -1, "-1: must be a number, 0 or more"),
            ("discrete_sac", "preset", [1], "[1]: must be text or null"),
            ("crr", "source_weights", "abc", "'abc': must be a mapping or a list or null"),
        ],
    )
    def test_value_of_another_kind(self, algorithm: str, key: str, value: Any, message: str) -> None:
        with pytest.raises(ValueError) as error:
            load_hyperparameters(algorithm, "VCC-2019-v1", {key: value})
        assert str(error.value).startswith(f"hyperparameter {key}={value!r}: {message}")

    @pytest.mark.parametrize(
        ("algorithm", "key", "value", "reason"),
        [
            ("crr", "normalize", True, "it learns from data, without an environment"),
            ("crr", "normalize", {"norm_obs": True}, "it learns from data, without an environment"),
            ("crr", "n_envs", 16, "it learns from data, without an environment"),
            ("crr", "noise_type", "normal", "it learns from data, without an environment"),
            ("crr", "noise_std", 0.1, "it learns from data, without an environment"),
            ("crr", "callback", "DiscountByTime", "it learns from data, without an environment"),
            ("sac", "noise_std", 0.9, "it is that of a noise_type (normal, ornstein-uhlenbeck)"),
            ("a2c", "noise_std", 0.5, "it takes no action noise"),
            ("a2c", "noise_type", "normal", "it takes no action noise"),
        ],
    )
    def test_value_without_an_effect(self, algorithm: str, key: str, value: Any, reason: str) -> None:
        with pytest.raises(ValueError) as error:
            read_hyperparameters(algorithm, {key: value})
        assert str(error.value) == (
            f"hyperparameter {key}={value!r}: {algorithm}: {key} has no effect: {reason}"
        )

    def test_value_that_says_nothing_is_no_mistake(self) -> None:
        nothing = {"n_envs": 1, "normalize": False, "noise_type": None, "callback": None}
        assert read_hyperparameters("crr", nothing).normalize is None
        assert load_hyperparameters("td3", "VCC-2019-v1", {"noise_type": None}).noise is None
        with pytest.raises(ValueError, match=r"noise_std=0\.3: td3: noise_std has no effect"):
            load_hyperparameters("td3", "VCC-2019-v1", {"noise_type": None, "noise_std": 0.3})

    def test_algorithm_that_does_not_fit(self) -> None:
        with pytest.raises(ValueError, match=r"dqn does not fit: .*Box"):
            load_hyperparameters("dqn", "Toy-v1").build(SimulatorVecEnv(ToySimulator(1)))
        with pytest.raises(ValueError, match=r"sac does not fit: .*Discrete"):
            load_hyperparameters("sac", "Toy-v1").build(SimulatorVecEnv(ToySimulator(1, discrete=True)))
        with pytest.raises(ValueError, match="needs a Box action space"):
            load_hyperparameters("td3", "Toy-v1").build(SimulatorVecEnv(ToySimulator(1, discrete=True)))

    @pytest.mark.parametrize("algorithm", ["ppo", "sac", "pid_ppo"])
    def test_policy_for_other_observations(self, algorithm: str) -> None:
        loaded = load_hyperparameters(algorithm, "Toy-v1", {"policy": "MultiInputPolicy"})
        with pytest.raises(ValueError, match=r"does not fit: policy 'MultiInputPolicy' is for Dict obs"):
            loaded.build(SimulatorVecEnv(ToySimulator(1)))

    def test_rejected_value(self) -> None:
        loaded = load_hyperparameters("ppo", "Toy-v1", {"batch_size": 1})
        with pytest.raises(ValueError, match=r"ppo does not fit: .*batch_size"):
            loaded.build(SimulatorVecEnv(ToySimulator(2)))
        loaded = load_hyperparameters("ppo", "Toy-v1", {"normalize": {"norm_observations": True}})
        with pytest.raises(ValueError, match=r"normalize: .*norm_observations"):
            loaded.wrap(SimulatorVecEnv(ToySimulator(2)))


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1e-3", 0.001),
            ("-2.5E+2", -250.0),
            (".5", 0.5),
            ("1.", 1.0),
            ("010", 10),
            ("-7", -7),
            ("off", "off"),
            ("yes", "yes"),
            ("true", True),
            ("False", False),
            ("2019-05-01", "2019-05-01"),
            ("2019-05", "2019-05"),
            ("1:30", "1:30"),
            ("null", None),
            ("", None),
            ("'5'", "5"),
            ("[1, a, 1e3]", [1, "a", 1000.0]),
            ("{a: .inf}", {"a": float("inf")}),
        ],
    )
    def test_scalars(self, text: str, value: object) -> None:
        parsed = yaml.parse(text, "x")
        assert parsed == value
        assert type(parsed) is type(value)

    def test_assignments(self) -> None:
        values = yaml.parse_assignments(["a=1", "b=x=y", "c=", "d=[1, 2]"], "--set")
        assert values == {"a": 1, "b": "x=y", "c": None, "d": [1, 2]}

    @pytest.mark.parametrize("text", ["a", "=1", "a b=1", "a-b=2"])
    def test_bad_assignments(self, text: str) -> None:
        with pytest.raises(ValueError, match=f"--set {text}: must be key=value"):
            yaml.parse_assignments([text], "--set")

    def test_doubled_assignment(self) -> None:
        with pytest.raises(ValueError, match="--set a: given twice"):
            yaml.parse_assignments(["a=1", "b=1", "a=2"], "--set")

    def test_bad_value(self) -> None:
        with pytest.raises(ValueError, match="--set a, line 1: not valid YAML"):
            yaml.parse_assignments(["a=[1"], "--set")


def test_read_mapping_never_runs_code() -> None:
    for text in (
        "dict(a=__import__('os').getcwd())",
        "(lambda: {})()",
        "{'a': [x for x in (1,)]}",
        "dict(**{})",
    ):
        with pytest.raises(ValueError):
            read_mapping(text)
    assert read_mapping("dict(a=-1, b=(2, 3), c={'d': None})") == {"a": -1, "b": (2, 3), "c": {"d": None}}


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None, float("nan"), float("inf")])
def test_positive_integer(value: object) -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        positive_integer(value)


def test_positive_integer_takes_floats_that_are_whole() -> None:
    assert positive_integer(1e6) == 1_000_000
