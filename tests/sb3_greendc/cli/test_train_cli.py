from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize
from train_cases import SMALL

from sb3_greendc.cli.train import main
from sb3_greendc.core import commands
from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class, hyperparameters_of
from sb3_greendc.core.callbacks import EpisodeMetricsCallback
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.runs import training
from sb3_greendc.runs.hyperparameters import learns_from_data
from sb3_greendc.runs.models import load_model, save_model
from sb3_greendc.runs.training import prepare, train, training_split

pytestmark = pytest.mark.usefixtures("toy")


def test_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "1e2", "--seed", "5", "--out", str(out)]
    assert main([*arguments, *SMALL, "--no-progress"]) == 0
    said = capsys.readouterr().out
    assert "ppo on Toy-v1: 100 steps in 2 environments, seed 5" in said
    assert "training split: split=train" in said
    assert sorted(path.name for path in out.iterdir()) == [
        "MANIFEST.json",
        "model.zip",
        "progress.csv",
        "run.json",
    ]
    record = json.loads((out / "run.json").read_text())
    assert record["algorithm"] == "ppo"
    assert record["env_id"] == "Toy-v1"
    assert record["env_kwargs"] == {"split": "train"}
    assert (record["seed"], record["timesteps"], record["n_envs"]) == (5, 100, 2)
    assert record["trained_timesteps"] == 128
    assert record["completed"] is True
    assert record["hyperparameters"]["n_steps"] == 16
    assert set(record["versions"]) >= {"stable-baselines3", "torch", "gymnasium"}
    log = pd.read_csv(out / "progress.csv")
    assert {"env/total", "env/steps", "rollout/ep_rew_mean"} <= set(log.columns)
    assert log["env/steps"].between(3, 9).all()
    assert isinstance(load_model(out).model, PPO)
    assert len(evaluate([str(out)], "Toy", 2)) == 2


def test_same_seed_same_model(tmp_path: Path) -> None:
    weights = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "64", "--out", str(tmp_path / name)]
        main([*arguments, *SMALL, "--no-progress", "--seed", seed])
        model = load_model(tmp_path / name).model
        weights.append(np.concatenate([p.detach().numpy().ravel() for p in model.policy.parameters()]))
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_set_beats_the_training_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "32", "--out", str(tmp_path / "run")]
    main([*arguments, *SMALL, "--no-progress", "--set", "split=test", "max_steps=5"])
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["env_kwargs"] == {"split": "test", "max_steps": 5}
    assert "training split" not in capsys.readouterr().out


def test_a_month_takes_the_place_of_the_training_split() -> None:
    """Both together would be a contradiction, which the environment refuses."""
    assert training_split("VCC-2019-v1", {}) == {"split": "train"}
    assert training_split("VCC-2019-v1", {"target_load": 0.5}) == {"split": "train"}
    assert training_split("VCC-2019-v1", {"month": "2019-07"}) == {}
    assert training_split("CartPole-v1", {}) == {}


@pytest.mark.parametrize(("env_id", "split"), [("VCC-2021", "train"), ("VCC-2019", "validation")])
def test_a_split_takes_the_place_of_the_month_of_the_id(
    env_id: str, split: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says that ``--set split=...`` chooses others; the id's own month is not in this one."""
    out = tmp_path / "run"
    asked = ["--algo", "ppo", "--env", env_id, "--timesteps", "32", "--out", str(out), "--no-progress"]
    assert main([*asked, *SMALL, "--set", f"split={split}"]) == 0
    assert json.loads((out / "run.json").read_text())["env_kwargs"] == {"split": split, "month": None}
    assert "training split" not in capsys.readouterr().out


def test_a_split_that_has_the_month_of_the_id_is_left_as_it_is() -> None:
    assert training_split("VCC-2021-v1", {"split": "test"}) == {}
    assert training_split("VCC-2021-v1", {"split": "train", "month": "2020-05"}) == {}
    assert training_split("VCC-2021-v1", {"split": None}) == {}
    assert training_split("VCC-2021-v1", {"split": "tset"}) == {}
    assert training_split("VCC-v1", {"split": "validation"}) == {}


def test_normaliser_is_saved_and_used(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "64", "--out", str(out)]
    normalize = "normalize={norm_reward: true, norm_obs: true}"
    main([*arguments, *SMALL, "--hparams", normalize, "--no-progress"])
    saved = load_model(out)
    assert isinstance(saved.normalizer, VecNormalize)
    assert saved.normalizer.ret_rms.count > 60
    assert len(evaluate([str(out)], "Toy", 2)) == 2


def test_interrupted_run_keeps_the_model_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Any) -> bool:
        if self.num_timesteps >= 64:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(EpisodeMetricsCallback, "_on_step", interrupted)
    out = tmp_path / "run"
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "1000", "--out", str(out)]
    assert main([*arguments, *SMALL]) == 130
    record = json.loads((out / "run.json").read_text())
    assert record["completed"] is False
    assert record["trained_timesteps"] == 64
    assert len(evaluate([str(out)], "Toy", 2)) == 2
    assert "saved the model so far" in capsys.readouterr().out


def test_interrupted_before_the_first_step_there_is_nothing_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EpisodeMetricsCallback, "_on_training_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(["--algo", "ppo", "--env", "Toy", "--timesteps", "64", "--out", str(tmp_path), *SMALL])
    assert not (tmp_path / "model.zip").exists()


def full_disk(*given: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_the_end_does_not_lose_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(model: Any, folder: Path, record: Any) -> Path:
        return save_model(model, folder, record) if folder != out else full_disk()  # type: ignore[func-returns-value]

    out = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "save_model", save)
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "64", "--out", str(out), "--no-progress"]
    assert main([*arguments, *SMALL]) == 1
    [kept] = tmp_path.glob("greendc-rescued-*/run")
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"train: error: {out}: No space left on device; the model is in {kept}"
    assert load_model(kept).run["completed"] is True
    assert main([*arguments, *SMALL, "--seeds", "0", "--overwrite"]) == 0
    out = out / "seed_0"
    assert main([*arguments, *SMALL, "--seeds", "0", "--overwrite"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"train: error: seed 0: {out}: No space left on device; the model is in ")


def test_a_log_that_the_disk_does_not_take_ends_the_run_and_keeps_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(self: Any, values: Any, *rest: Any) -> None:
        if values["time/total_timesteps"] >= 64:
            full_disk()

    monkeypatch.setattr("sb3_greendc.runs.run_logger._SortedCSV.write", write)
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "1000", "--out", str(tmp_path)]
    assert main([*arguments, "--no-progress", *SMALL]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "No space left on device; training ended early, and the model so far is there" in line
    run = load_model(tmp_path).run
    assert (run["completed"], run["trained_timesteps"]) == (False, 64)


@pytest.mark.parametrize(
    ("algorithm", "env_id", "hparams"),
    [
        ("ppo", "Toy", ["n_steps=16", "batch_size=32"]),
        ("td3", "Toy", ["learning_starts=8", "batch_size=8"]),
        ("dqn", "DiscreteToy", ["learning_starts=8", "batch_size=8"]),
    ],
)
def test_divergence_is_one_line(
    algorithm: str, env_id: str, hparams: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether something raises on the way or nothing notices."""
    arguments = ["--algo", algorithm, "--env", env_id, "--timesteps", "200", "--out", str(tmp_path / "run")]
    arguments += ["--n-envs", "2", "--no-progress", "--hparams", *hparams, "learning_rate=1e30"]
    assert main(arguments) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("train: error: training has diverged: weights are not finite after ")
    assert not (tmp_path / "run" / "model.zip").exists()


def scale_of_zero(policy: Any) -> None:
    policy.log_std.data.fill_(-1e3)


def infinite_activations(policy: Any) -> None:
    for parameter in policy.parameters():
        parameter.data.fill_(3e38)
    policy.action_net.weight.data[0, 0] *= -1


@pytest.mark.parametrize(
    ("algorithm", "env_id", "spoil"),
    [
        ("a2c", "Toy", scale_of_zero),
        ("ppo", "Toy", infinite_activations),
        ("ppo", "DiscreteToy", infinite_activations),
        ("maskable_ppo", "MaskedToy", infinite_activations),
    ],
)
def test_finite_weights_of_no_use_are_divergence(
    algorithm: str,
    env_id: str,
    spoil: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A scale that is the exponential of -1000 is 0, and activations may overflow."""
    monkeypatch.setattr(algorithm_class(algorithm), "train", lambda model: spoil(model.policy))
    arguments = ["--algo", algorithm, "--env", env_id, "--timesteps", "500", "--out", str(tmp_path / "run")]
    assert main([*arguments, "--n-envs", "2", "--no-progress", "--hparams", "n_steps=16"]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("train: error: training has diverged: actions have no distribution any more"), line
    assert " steps; a lower learning_rate may help" in line
    assert not (tmp_path / "run" / "model.zip").exists()


def test_discount_by_time_where_no_time_is_reported_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "200", "--out", str(tmp_path / "run")]
    arguments += ["--no-progress", "--hparams", "n_steps=16", "batch_size=16", "callback=DiscountByTime"]
    assert main(arguments) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("train: error: environment 0 reports no info['time_advanced'], ")


def test_an_error_in_training_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any) -> bool:
        raise ValueError("a bug")

    monkeypatch.setattr(EpisodeMetricsCallback, "_on_step", broken)
    with pytest.raises(ValueError, match="a bug"):
        main(["--algo", "ppo", "--env", "Toy", "--timesteps", "64", "--out", str(tmp_path), *SMALL])
    assert not (tmp_path / "model.zip").exists()


def weights_of(out: Path) -> np.ndarray:
    parameters = load_model(out).model.policy.parameters()
    return np.concatenate([parameter.detach().numpy().ravel() for parameter in parameters])


VCC_RUN = ["--algo", "ppo", "--env", "VCC-2019", "--timesteps", "64", "--set", "days=1", *SMALL]


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_seeds(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each seed gives the model that it gives alone; seeds that are done are not trained again."""
    seeds = [*VCC_RUN, "--checkpoint-every", "32", "--engine", engine]
    out = ["--out", str(tmp_path / "run"), "--no-progress"]
    assert main([*seeds, *out, "--seeds", "1", "5", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "2 environments, seeds 1 5" in said
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["seed_1", "seed_5"]
    main([*VCC_RUN, "--seed", "5", "--out", str(tmp_path / "alone"), "--no-progress"])
    np.testing.assert_array_equal(weights_of(tmp_path / "run" / "seed_5"), weights_of(tmp_path / "alone"))
    assert not np.array_equal(weights_of(tmp_path / "run" / "seed_1"), weights_of(tmp_path / "alone"))
    before = (tmp_path / "run" / "seed_1" / "model.zip").read_bytes()
    capsys.readouterr()
    assert main([*seeds, *out, "--seeds", "1", "2", "--resume", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert f"done before: {tmp_path / 'run' / 'seed_1' / 'model.zip'}" in said
    assert f"saved: {tmp_path / 'run' / 'seed_2' / 'model.zip'}" in said
    assert (tmp_path / "run" / "seed_1" / "model.zip").read_bytes() == before


def nan_for(seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the weights of some seeds diverge."""
    learn = PPO.train

    def diverge(self: PPO) -> None:
        learn(self)
        for parameter in self.policy.parameters() if self.seed in seeds else ():
            parameter.data.fill_(np.nan)

    monkeypatch.setattr(PPO, "train", diverge)


def test_a_seed_that_fails_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    arguments = [*VCC_RUN, "--out", str(out), "--no-progress", "--checkpoint-every", "32"]
    with monkeypatch.context() as patch:
        nan_for((1, 2), patch)
        assert main([*arguments, "--seeds", "1", "0", "2", "3"]) == 1
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if "seed_" in line] == [
        f"failed: {out / 'seed_1'}",
        f"saved: {out / 'seed_0' / 'model.zip'}",
        f"failed: {out / 'seed_2'}",
        f"saved: {out / 'seed_3' / 'model.zip'}",
    ]
    first, second = [line for line in said.err.splitlines() if "warn" not in line.lower()][-2:]
    assert first.startswith("train: error: seed 1: training has diverged: weights are not finite after ")
    assert second.startswith("train: error: seed 2: training has diverged: weights are not finite after ")
    assert main([*arguments, "--seeds", "1", "0", "4", "--resume"]) == 1  # seed 1 has diverged for good
    assert f"done before: {out / 'seed_0' / 'model.zip'}" in capsys.readouterr().out
    assert [(out / f"seed_{seed}" / "model.zip").exists() for seed in range(5)] == [1, 0, 0, 1, 1]


KILLER = """
import multiprocessing, os, signal
from pathlib import Path
from stable_baselines3 import PPO

if multiprocessing.parent_process() is not None:  # in workers alone
    train = PPO.train

    def die(self):
        train(self)
        mark = Path(f"killed-{self.seed}")
        if self.seed == 2 or (self.seed == 1 and self._n_updates > 2 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    PPO.train = die
"""


def test_a_seed_whose_process_is_killed_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the kernel does when memory is short. It goes on at its last checkpoint, alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(commands, "_imported", [])
    Path("seed_killer.py").write_text(KILLER)
    arguments = [*VCC_RUN, "--no-progress", "--checkpoint-every", "32"]
    several = ["--engine", "process", "--jobs", "2", "--import", "seed_killer"]
    assert main([*arguments, *several, "--out", "run", "--seeds", "2", "1", "0"]) == 1
    said = capsys.readouterr()
    assert said.out.count("run/seed_1: its process died, of too little memory perhaps: it is run once") == 1
    # Which of the two that died is run once more first is a matter of which died first.
    assert sorted(line for line in said.out.splitlines() if line.startswith(("saved", "failed"))) == [
        f"failed: {Path('run/seed_2')}",
        f"saved: {Path('run/seed_0/model.zip')}",
        f"saved: {Path('run/seed_1/model.zip')}",
    ]
    assert "train: error: seed 2: its process died twice, the second time alone" in said.err
    main([*arguments, "--seed", "1", "--out", "alone"])
    np.testing.assert_array_equal(weights_of(Path("run/seed_1")), weights_of(Path("alone")))


def test_a_mistake_in_one_seed_is_told_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: Any) -> bool:
        if self.model.seed == 0:
            raise LookupError("a bug")
        return True

    monkeypatch.setattr(EpisodeMetricsCallback, "_on_step", broken)
    arguments = [
        "--algo",
        "ppo",
        "--env",
        "Toy",
        "--timesteps",
        "64",
        "--out",
        str(tmp_path),
        "--no-progress",
    ]
    assert main([*arguments, *SMALL, "--seeds", "0", "1"]) == 1
    said = capsys.readouterr().err
    assert "in broken\n" in said
    assert said.splitlines()[-1] == "train: error: seed 0: LookupError: a bug"
    assert not (tmp_path / "seed_0" / "model.zip").exists()
    assert (tmp_path / "seed_1" / "model.zip").exists()


@pytest.mark.default_row
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_records_of_ray_workers_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the command line of Ray's worker."""
    arguments = [*VCC_RUN, "--out", str(tmp_path), "--no-progress", "--seeds", "0", "--engine", "ray"]
    monkeypatch.setattr(sys, "argv", ["scripts/train.py", *arguments])
    assert main([*arguments, "--jobs", "1"]) == 0
    assert load_model(tmp_path / "seed_0").run["command"] == shlex.join(["python", *sys.argv])


def test_cost_limit(tmp_path: Path) -> None:
    arguments = ["--algo", "pid_ppo", "--env", "Toy", "--timesteps", "32", *SMALL, "--no-progress"]
    assert main([*arguments, "--cost-limit", "2.5", "--out", str(tmp_path)]) == 0
    assert load_model(tmp_path).model.cost_limit == 2.5  # type: ignore[attr-defined]


def test_tensorboard(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    arguments = ["--algo", "ppo", "--env", "Toy", "--timesteps", "64", *SMALL, "--no-progress"]
    assert main([*arguments, "--tensorboard", "--out", str(tmp_path)]) == 0
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    log = pd.read_csv(tmp_path / "progress.csv")
    for name in ("env/total", "rollout/ep_rew_mean"):
        np.testing.assert_allclose([event.value for event in events.Scalars(name)], log[name], rtol=1e-6)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if not learns_from_data(name)])
def test_every_algorithm(algorithm: str, tmp_path: Path) -> None:
    env_id = "DiscreteToy" if algorithm in ("discrete_sac", "dqn", "qrdqn") else "Toy"
    env_id = "MaskedToy" if algorithm == "maskable_ppo" else env_id
    values: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "learning_starts": 10}
    values |= {"n_delta": 1, "cost_limit": 2}
    values["policy_kwargs"] = {} if algorithm == "ars" else {"net_arch": [8]}
    known = hyperparameters_of(algorithm)
    if "learning_starts" in known:
        del values["n_steps"]  # of n-step returns there
    small = {"n_envs": 2} | {key: value for key, value in values.items() if key in known}
    run = prepare(algorithm, env_id, 40, seed=1, hyperparameters=small)
    assert train(run, tmp_path, progress=False)
    if algorithm != "ars":  # which does not tell callbacks what the environment said
        log = pd.read_csv(tmp_path / "progress.csv") if (tmp_path / "progress.csv").read_text() else None
        assert log is None or "env/total" in log.columns
    assert evaluate([str(tmp_path)], env_id, 2)["return"].notna().all()
