from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch as th
from programs import run_python
from train_cases import SMALL, fails_in_one_line

from sb3_greendc.cli import train as train_cli
from sb3_greendc.cli.train import main

pytestmark = pytest.mark.usefixtures("toy")


class TestBadInput:
    def arguments(self, tmp_path: Path, **changes: str) -> list[str]:
        options = {"--algo": "ppo", "--env": "Toy", "--timesteps": "64", "--out": str(tmp_path / "run")}
        options |= {f"--{key}": value for key, value in changes.items()}
        return [text for pair in options.items() for text in pair]

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            (["--algo", "sca"], "unknown algorithm 'sca'; did you mean 'sac'?"),
            (["--env", "VCC-2O19"], "'VCC-2O19'; did you mean 'VCC-2019"),
            (["--hparams", "gama=0.9"], "gama=0.9: ppo has no such hyperparameter; did you mean 'gamma'?"),
            (["--set", "size=3"], "unknown option 'size'"),
            (["--set", "split=tset"], "split='tset': must be"),
            (["--set", "split"], "--set split: must be key=value"),
        ],
    )
    def test_unknown_names_and_values(
        self, option: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert message in fails_in_one_line([*self.arguments(tmp_path), *option], capsys)

    def test_algorithm_that_does_not_fit(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(self.arguments(tmp_path, algo="dqn"), capsys)
        assert "dqn does not fit" in error
        assert error.endswith("; DiscreteToy-v1 has discrete actions\n")

    @pytest.mark.parametrize(
        ("option", "hparam"), [("--n-envs", "n_envs=3"), ("--cost-limit", "cost_limit=5.0")]
    )
    def test_an_option_and_the_hyperparameter_of_its_name(
        self, option: str, hparam: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        asked = [*self.arguments(tmp_path, algo="pid_ppo"), option, "2", "--hparams", hparam]
        error = fails_in_one_line(asked, capsys)
        assert f"{option} and --hparams {hparam}: give one of them" in error

    def test_callback_that_does_not_fit(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = [*self.arguments(tmp_path, algo="sac"), "--hparams", "callback=DiscountByTime"]
        error = fails_in_one_line(arguments, capsys)
        assert "DiscountByTime: SAC must be an on-policy algorithm" in error
        assert "discrete actions" not in error  # would not help

    def test_masks_needed(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(self.arguments(tmp_path, algo="maskable_ppo", env="DiscreteToy"), capsys)
        assert "maskable_ppo needs action masks; the environment has no action_masks()" in error

    def test_cost_limit_elsewhere(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line([*self.arguments(tmp_path), "--cost-limit", "3"], capsys)
        assert "--cost-limit: ppo knows no limit on cost; pid_ppo and recurrent_pid_ppo do" in error

    @pytest.mark.parametrize(
        ("algorithm", "hparam"),
        [
            ("sac", "buffer_size=1e15"),
            ("ppo", "n_steps=1e13"),
            ("ppo", "n_envs=1e12"),
            ("ppo", "policy_kwargs={net_arch: [10000000, 10000000]}"),
        ],
    )
    def test_more_memory_than_there_is(
        self, algorithm: str, hparam: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        key, value = hparam.split("=")
        hparam = f"{key}={value if value[0] == '{' else int(float(value))}"
        error = fails_in_one_line([*self.arguments(tmp_path, algo=algorithm), "--hparams", hparam], capsys)
        assert f"{algorithm}: takes more memory than there is" in error

    def test_seed_twice(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line([*self.arguments(tmp_path), "--seeds", "1", "2", "1"], capsys)
        assert "--seeds 1 2 1: each seed may be given once" in error

    def test_one_of_the_seeds_has_a_model(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "run" / "seed_2").mkdir(parents=True)
        (tmp_path / "run" / "seed_2" / "model.zip").touch()
        error = fails_in_one_line([*self.arguments(tmp_path), "--seeds", "1", "2"], capsys)
        assert "seed_2: has a model already; --overwrite replaces it" in error
        assert not (tmp_path / "run" / "seed_1" / "model.zip").exists()

    def test_engine_without_seeds(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line([*self.arguments(tmp_path), "--engine", "process"], capsys)
        assert "--engine, --jobs and --ray-address are for several --seeds" in error

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--ray-address", "localhost:1"], "ray_address='localhost:1': must be left out without Ray"),
            (
                ["--engine", "ray", "--ray-address", "localhost:1"],
                "ray_address 'localhost:1': no Ray cluster",
            ),
            (["--engine", "ray", "--ray-address", "nowhere"], "must be auto, HOST:PORT or ray://HOST:PORT"),
            (["--engine", "ray", "--ray-address", "localhost:99999"], "no Ray cluster there"),
        ],
    )
    @pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
    def test_engine_options(
        self, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        error = fails_in_one_line([*self.arguments(tmp_path), "--seeds", "0", "1", *options], capsys)
        assert message in error
        assert not (tmp_path / "run").exists()

    def test_something_else_than_ray_answers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise ConnectionError("ray_address 'a:1': no Ray cluster there: who knows")

        monkeypatch.setattr(train_cli, "map_tasks", refuse)
        assert main([*self.arguments(tmp_path), "--seeds", "0", "1"]) == 2
        assert capsys.readouterr().err == "train: error: ray_address 'a:1': no Ray cluster there: who knows\n"

    def test_missing_ray(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        error = fails_in_one_line([*self.arguments(tmp_path), "--seeds", "0", "--engine", "ray"], capsys)
        assert "engine 'ray' needs Ray: pip install ray" in error

    def test_one_seed_and_several(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main([*self.arguments(tmp_path), "--seed", "7", "--seeds", "0", "1"])
        assert "argument --seeds: not allowed with argument --seed" in capsys.readouterr().err

    @pytest.mark.parametrize("device", ["cuda:99", "cud", "meta"])
    def test_device(self, device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(self.arguments(tmp_path, device=device), capsys)
        assert f"--device {device}: cannot be used on this machine: " in error
        assert not (tmp_path / "run").exists()

    def test_gpu_where_there_is_none(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Stable-Baselines3 would train on the processor without a word."""
        if th.cuda.is_available():
            pytest.skip("there is a GPU: test_gpu.py trains on it")
        error = fails_in_one_line(self.arguments(tmp_path, device="cuda"), capsys)
        assert "--device cuda: cannot be used on this machine: " in error

    @pytest.mark.parametrize("seed", ["-1", str(2**32)])
    def test_seed(self, seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(self.arguments(tmp_path, env="CartPole-v1", seed=seed), capsys)
        assert f"seed={seed}: must be at least 0 and below 2**32" in error

    @pytest.mark.parametrize(
        "hparam", ["policy=CnnnPolicy", "policy_kwargs={net_arc: [3]}", "policy=MlpLstmPolicy"]
    )
    def test_policy_that_cannot_be_built(
        self, hparam: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        error = fails_in_one_line([*self.arguments(tmp_path), "--hparams", hparam], capsys)
        assert "ppo does not fit: " in error

    @pytest.mark.parametrize(
        "hparam",
        [
            "gamma=abc",
            "n_steps=0",
            "ent_coef=abc",
            "clip_range=-1",
            "clip_range=lin_0",
            "clip_range_vf=0",
            "max_grad_norm=-0.5",
            "target_kl=0",
            "learning_rate=-1e-3",
            "policy_kwargs={net_arch: [-3]}",
        ],
    )
    def test_value_of_another_kind(
        self, hparam: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        error = fails_in_one_line([*self.arguments(tmp_path), "--hparams", hparam], capsys)
        assert f"hyperparameter {hparam.partition('=')[0]}=" in error
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("algorithm", ["dqn", "discrete_sac"])
    def test_updates_by_episodes_of_several_environments(
        self, algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        asked = [*self.arguments(tmp_path, algo=algorithm, env="CartPole-v1"), "--n-envs", "3"]
        error = fails_in_one_line([*asked, "--hparams", "train_freq=[1, episode]"], capsys)
        assert "train_freq=[1, 'episode']: counts episodes, which needs n_envs=1, not 3" in error

    def test_an_environment_without_costs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        asked = self.arguments(tmp_path, algo="pid_ppo", env="CartPole-v1")
        assert main([*asked, "--cost-limit", "5", "--no-progress"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("train: error: environment 0 reports no info['cost']: a")
        assert error.count("\n") == 1

    def test_offline_algorithm(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(self.arguments(tmp_path, algo="crr", env="DiscreteToy"), capsys)
        assert "crr learns from a data set: say --data FILE" in error

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ([], "--env ID, or --data FILE, is required"),
            (["--env", "Toy", "--mmap"], "--mmap: is for --data"),
        ],
    )
    def test_nothing_to_learn_from(
        self, tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert message in fails_in_one_line(["--algo", "ppo", "--out", str(tmp_path), *more], capsys)

    def test_model_there_already(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "model.zip").touch()
        error = fails_in_one_line(self.arguments(tmp_path), capsys)
        assert "has a model already; --overwrite replaces it" in error
        assert main([*self.arguments(tmp_path), *SMALL, "--overwrite", "--no-progress"]) == 0

    def test_file_in_the_way(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "run").touch()
        assert "run" in fails_in_one_line(self.arguments(tmp_path), capsys)

    @pytest.mark.parametrize("timesteps", ["0", "-5", "many", "1.5"])
    def test_timesteps(self, tmp_path: Path, timesteps: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(self.arguments(tmp_path, timesteps=timesteps))
        assert "must be a positive whole number" in capsys.readouterr().err


def test_script_without_traceback(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[3] / "scripts" / "train.py"
    arguments = ["--algo", "ppo", "--env", "CartPole-v2000", "--out", str(tmp_path)]
    result = run_python(script, *arguments)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("train: error: unknown environment 'CartPole-v2000'")
    assert "Traceback" not in result.stderr
