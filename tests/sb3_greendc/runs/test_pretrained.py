"""Releases: what is written is what is loaded, and nothing else."""

from __future__ import annotations

import json
import shutil
import warnings

import make_release as command
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from release_card import FIGURE_FILE, SCORES_FILE

import greendc
from greendc.shipped.release import (
    CARD_FILE,
    CONFIG_FILE,
    TENSORS_FILE,
    pretrained_directory,
    release_for,
    releases,
)
from sb3_greendc.cli.common import INTERRUPTED
from sb3_greendc.cli.train import main as train
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.tables import number
from sb3_greendc.experiments import distillation
from sb3_greendc.runs.models import load_model
from sb3_greendc.runs.pretrained import load_pretrained

ENV = "VCC-2021"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A short run, and its release."""
    folder = tmp_path_factory.mktemp("release")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GREENDC_PRETRAINED", str(folder / "pretrained"))
        run = ["--algo", "ppo", "--env", ENV, "--timesteps", "256", "--n-envs", "2", "--no-progress"]
        run += ["--hparams", "n_steps=64", "batch_size=64", "--out", str(folder / "run")]
        assert train(run) == 0
        make = ["--model", str(folder / "run"), "--name", "vcc-test", "--serves", "VCC-20*", "--no-progress"]
        assert (
            command.main([*make, "--baselines", "always_on", "--episodes", "2", "--notes", "For tests."]) == 0
        )
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.setenv("GREENDC_PRETRAINED", str(made / "pretrained"))
    return made


@pytest.mark.parametrize("name", ["vcc-test", "VCC-2021", "VCC-2019-v1"])
def test_the_released_policy_acts_as_the_trained_one(folder, name):
    trained, released = load_model(folder / "run").model, load_pretrained(name)
    env = make_vec_env(ENV, 4, seed=3)
    observations = env.reset()
    for _ in range(5):
        actions, _ = released.predict(observations, deterministic=True)
        np.testing.assert_array_equal(actions, trained.predict(observations, deterministic=True)[0])
        observations = env.step(actions)[0]


def test_evaluations_know_it_by_one_word(folder):
    trained = evaluate({"ppo": str(folder / "run")}, ENV, 2, 5)
    released = evaluate(["always_on", "pretrained", "other=pretrained:vcc-test"], ENV, 2, 5)
    for name in ("pretrained", "other"):
        found = released[released["policy"] == name]
        assert found["return"].tolist() == trained["return"].tolist()
    with pytest.raises(ValueError, match=r"pretrained 'ResourcePool-50-v0': no such policy.*VCC-20\*"):
        evaluate(["pretrained"], "ResourcePool-50", 1)


def test_a_shipped_scheduler_chooses_from_what_it_chose_from_in_training():
    plain = evaluate(["pretrained", "hvf"], "ResourcePool-10", 2, 5, env_kwargs={"episode_steps": 60})
    own = release_for("ResourcePool-10").env_kwargs
    masked = evaluate(["pretrained", "hvf"], "ResourcePool-10", 2, 5, env_kwargs={"episode_steps": 60, **own})
    value = "total_job_value"
    rows = (plain["policy"] == "pretrained").to_numpy()
    assert plain[value][rows].tolist() == masked[value][rows].tolist()
    assert plain[value][~rows].tolist() != masked[value][~rows].tolist()


def test_a_shipped_scheduler_may_choose_among_more_jobs_than_heuristics_see(tmp_path, monkeypatch):
    wider = tmp_path / "ResourcePool"
    shutil.copytree(pretrained_directory() / "ResourcePool", wider)
    config = json.loads((wider / CONFIG_FILE).read_text())
    config["env_kwargs"]["ready_pool_size"] = 15
    (wider / CONFIG_FILE).write_text(json.dumps(config))
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path))
    settings = {"episode_steps": 60}
    found = evaluate(["pretrained", "hvf"], "ResourcePool-10", 2, 5, env_kwargs=settings)
    model = load_pretrained("ResourcePool-10")
    own = {**settings, **release_for("ResourcePool-10").env_kwargs}
    wanted = evaluate({"pretrained": model}, "ResourcePool-10", 2, 5, env_kwargs=own)
    alone = evaluate(["hvf"], "ResourcePool-10", 2, 5, env_kwargs=settings)
    for rows in (wanted, alone):
        same = found[found["policy"] == rows["policy"].iloc[0]]
        assert same["total_job_value"].tolist() == rows["total_job_value"].tolist()


def test_a_released_model_goes_on_training(folder):
    model = load_pretrained("VCC-2021")
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.set_env(make_vec_env(ENV, model.n_envs, seed=0, **greendc.training_kwargs(ENV)))
    model.learn(192)
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))


def test_the_card_has_scores_beside_the_baseline_and_the_notes(folder):
    release = folder / "pretrained" / "vcc-test"
    card, scores = (release / CARD_FILE).read_text(), pd.read_csv(release / SCORES_FILE)
    assert "| environment | vcc-test | best baseline | random |" in card
    assert "`always_on`" in card
    assert set(scores["policy"]) == {"vcc-test", "always_on", "random"}
    shown = scores[(scores["policy"] == "vcc-test") & (scores["metric"] == "return")].iloc[0]
    assert f"| {number(shown['estimate'])} [{number(shown['low'])}, " in card
    assert (release / FIGURE_FILE).read_bytes().startswith(b"\x89PNG")
    assert "For tests." in card
    assert "256 steps" in card


def test_a_distilled_network_serves_pools_of_other_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path))
    make = ["--distill", "1000", "--futures", "2", "--min-qos", "0.2"]
    make += ["--name", "pool", "--scales", "--no-progress"]
    make += ["--env", "ResourcePool-10", "ResourcePool-20", "--serves", "ResourcePool-[2-9]0"]
    make += ["--training-tasks", "offered_load=0.5", "power=random,power_level=0.8"]
    make += ["--episodes", "2", "--baselines", "hvf", "--out", str(tmp_path / "kept")]
    assert command.main(make) == 0
    weights = [load_pretrained(name).policy.state_dict() for name in ("pool", "ResourcePool-50")]
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])
    assert (
        0 < release_for("pool").logit_scale <= distillation.SCALE
    )  # a planner that it is a prior of needs it
    larger = make_vec_env("ResourcePool-50", 1, lookahead=24)
    assert load_pretrained("ResourcePool-50").observation_space == larger.observation_space
    card = (tmp_path / "pool" / CARD_FILE).read_text()
    for part in (
        "distilled by rollout:futures=2,min_qos=0.2,depth=24,dispatch=easy on 1,000 decisions",
        'env = gym.make("ResourcePool-10-v0", mask="now_on_time", lookahead=24)',
        'model = load_pretrained("pool")',
        "`ResourcePool-20-v0`",
        "`ResourcePool-10-v0` (offered_load=0.5)",
        "`ResourcePool-10-v0` (power=random, power_level=0.8)",
        "share of the clairvoyant bound",
        "`scripts/release.py --distill 1000 --futures 2 --min-qos 0.2 --name pool",
        "--episodes 2 --baselines hvf`",
    ):
        assert part in card
    assert str(tmp_path) not in card
    with pytest.raises(SystemExit):
        command.main(["--distill", "1000", "--name", "pool"])


def test_an_interrupted_card_does_not_cost_the_distillation(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path / "pretrained"))
    make = [
        "--distill",
        "900",
        "--futures",
        "2",
        "--name",
        "pool",
        "--env",
        "ResourcePool-10",
        "--no-progress",
    ]
    make += ["--set", "episode_steps=50", "--episodes", "2", "--out", str(tmp_path / "kept")]

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command, "add_share_of_bound", stop)
        assert command.main(make) == INTERRUPTED
    assert "the same command goes on" in capsys.readouterr().out
    tensors = (tmp_path / "pretrained" / "pool" / TENSORS_FILE).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(distillation, "collect", None)  # nothing is distilled again
        assert command.main(make) == 0
    assert (tmp_path / "pretrained" / "pool" / TENSORS_FILE).read_bytes() == tensors
    assert "| pool | random |" in (tmp_path / "pretrained" / "pool" / CARD_FILE).read_text()


def test_too_little_to_teach_with_is_said_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path / "pretrained"))
    make = [
        "--distill",
        "300",
        "--futures",
        "2",
        "--name",
        "pool",
        "--env",
        "ResourcePool-10",
        "--no-progress",
    ]
    assert command.main([*make, "--set", "episode_steps=50", "--out", str(tmp_path / "kept")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("release: ")
    assert "batch_size=512: must be between 1 and" in said
    assert "Traceback" not in said
    assert "pool" not in releases()


def test_lessons_are_for_networks_that_are_distilled(folder, capsys):
    with pytest.raises(SystemExit):
        command.main(["--model", str(folder / "run"), "--name", "other", "--training-tasks", "month=2019-05"])
    assert "--training-tasks: is what --distill trains on" in capsys.readouterr().err
    assert "other" not in releases()


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        (["--baselines", "hvff"], "hvff"),
        (["--set", "offered_lod=1"], "offered_lod"),
        (["--training-tasks", "offered_load=1", "ready_pool_size=7"], "ready_pool_size"),
    ],
)
def test_what_is_wrong_shows_before_anything_is_distilled(folder, capsys, monkeypatch, wrong, culprit):
    monkeypatch.setattr(distillation, "collect", None)
    with pytest.raises(SystemExit):
        command.main(["--distill", "1000", "--name", "other", "--env", "ResourcePool-10", *wrong])
    assert culprit in capsys.readouterr().err
    assert "other" not in releases()


def test_a_saved_model_is_released_only_where_it_can_be_judged(folder, capsys):
    for wrong, culprit in ((["--baselines", "alwys_on"], "alwys_on"), (["--set", "mnth=2019-05"], "mnth")):
        with pytest.raises(SystemExit):
            command.main(["--model", str(folder / "run"), "--name", "other", *wrong])
        assert culprit in capsys.readouterr().err
        assert not (folder / "pretrained" / "other").exists()


def test_no_code_is_pickled(folder):
    names = {path.name for path in (folder / "pretrained" / "vcc-test").iterdir()}
    assert names == {TENSORS_FILE, CONFIG_FILE, CARD_FILE, SCORES_FILE, FIGURE_FILE}
    tensors = safetensors.numpy.load_file(folder / "pretrained" / "vcc-test" / TENSORS_FILE)
    assert all(array.dtype == np.float32 for array in tensors.values())


def test_an_unknown_name_lists_what_there_is(folder):
    with pytest.raises(ValueError, match=r"pretrained 'ResourcePool-77': no such policy.*VCC-20\*"):
        load_pretrained("ResourcePool-77")


def test_damaged_tensors_are_refused(folder, tmp_path, monkeypatch):
    copy = tmp_path / "pretrained" / "vcc-test"
    copy.mkdir(parents=True)
    for path in (folder / "pretrained" / "vcc-test").iterdir():
        data = bytearray(path.read_bytes())
        if path.name == TENSORS_FILE:
            data[len(data) // 2] ^= 1
        (copy / path.name).write_bytes(data)
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path / "pretrained"))
    with pytest.raises(ValueError, match=r"policy.safetensors: damaged"):
        load_pretrained("vcc-test")
    config = json.loads((copy / CONFIG_FILE).read_text())
    for scale in (0.0, float("nan"), float("inf"), True, "four"):
        (copy / CONFIG_FILE).write_text(json.dumps({**config, "logit_scale": scale}))
        with pytest.raises(ValueError, match=r"config\.json: logit_scale="):
            load_pretrained("vcc-test")
    (copy / CONFIG_FILE).write_text(json.dumps({**config, "code": "import os"}))
    with pytest.raises(ValueError, match=r"config.json: keys .*'code'"):
        load_pretrained("vcc-test")


def test_every_shipped_release_loads_and_acts():
    for name, release in releases().items():
        env = make_vec_env(release.env_id, 2, seed=0, **release.env_kwargs)
        observations = env.reset()
        masks = (
            {"action_masks": np.array(env.env_method("action_masks"))}
            if "maskable" in release.algorithm
            else {}
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            model = load_pretrained(name)
        actions, _ = model.predict(observations, deterministic=True, **masks)
        assert len(actions) == 2
