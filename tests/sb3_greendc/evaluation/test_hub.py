"""Models to the Hub and back. The hub is a folder; calls are checked against huggingface_hub's own."""

from __future__ import annotations

import fnmatch
import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc import DiscreteSAC, load_from_hub, make_vec_env, package_to_hub, push_to_hub
from sb3_greendc.evaluation import hub
from sb3_greendc.runs.models import load_model, save_model

REPO = "me/a-policy"


def real(name: str) -> Any:
    """Return a function of the real package, or ``None``."""
    try:
        import huggingface_hub
    except ImportError:
        return None
    owner = huggingface_hub if name == "snapshot_download" else huggingface_hub.HfApi
    return getattr(owner, name)


class FolderHub:
    """What the module uses of huggingface_hub, over a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.messages: list[str] = []
        self.tokens: list[str | None] = []

    def HfApi(self, token: str | None = None) -> Any:  # noqa: N802 (its name)
        self.tokens.append(token)
        return SimpleNamespace(create_repo=self.create_repo, upload_folder=self.upload_folder)

    def check(self, name: str, *first: Any, **arguments: Any) -> None:
        if real(name) is not None:
            inspect.signature(real(name)).bind(*first, **arguments)

    def create_repo(self, **arguments: Any) -> None:
        self.check("create_repo", None, **arguments)
        (self.root / arguments["repo_id"]).mkdir(parents=True, exist_ok=arguments["exist_ok"])

    def upload_folder(self, **arguments: Any) -> str:
        self.check("upload_folder", None, **arguments)
        shutil.copytree(arguments["folder_path"], self.root / arguments["repo_id"], dirs_exist_ok=True)
        self.messages.append(arguments["commit_message"])
        return f"hub://{arguments['repo_id']}/commit/1"

    def snapshot_download(self, **arguments: Any) -> str:
        self.check("snapshot_download", **arguments)
        here = self.root / "downloaded"
        there = self.root / arguments["repo_id"]
        for path in there.rglob("*"):
            name = path.relative_to(there).as_posix()
            if path.is_file() and any(fnmatch.fnmatch(name, one) for one in arguments["allow_patterns"]):
                (here / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, here / name)
        here.mkdir(exist_ok=True)
        return str(here)


@pytest.fixture
def folder_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    made = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(hub, "import_hub", lambda: made)
    return made


def head_of(repo: Path) -> dict[str, Any]:
    first, head, _ = (repo / "README.md").read_text().split("---\n", 2)
    assert first == ""
    values: dict[str, Any] = yaml.safe_load(head)
    return values


def test_package_and_load(folder_hub: FolderHub) -> None:
    options: dict[str, Any] = {"episode_steps": 20}
    env = make_vec_env("ResourcePool-10-v0", 2, seed=0, **options)
    model = DiscreteSAC("MultiInputPolicy", env, buffer_size=100, learning_starts=10, seed=0, device="cpu")
    said = package_to_hub(
        model,
        "sac-pool",
        "DiscreteSAC",
        "ResourcePool-10",
        env,
        REPO,
        "first",
        True,
        3,
        "t0",
        env_kwargs=options,
    )
    assert said == f"hub://{REPO}/commit/1"
    assert (folder_hub.messages, folder_hub.tokens) == (["first"], ["t0"])
    repo = folder_hub.root / REPO
    files = {path.name for path in repo.iterdir()}
    assert files == {"MANIFEST.json", "README.md", "model.zip", "results.json", "run.json"}
    saved = load_model(load_from_hub(REPO))  # without trust: it holds no pickles
    observation = env.reset()
    np.testing.assert_array_equal(
        saved.model.predict(observation, deterministic=True)[0],
        model.predict(observation, deterministic=True)[0],
    )
    assert saved.run["env_id"] == "ResourcePool-10-v0"
    assert saved.run["env_kwargs"] == options
    head = head_of(repo)
    assert head["library_name"] == "stable-baselines3" and "ResourcePool-10-v0" in head["tags"]
    (metric,) = head["model-index"][0]["results"][0]["metrics"]
    assert metric["type"] == "mean_reward" and " +/- " in metric["value"]
    card = (repo / "README.md").read_text()
    assert f'load_from_hub("{REPO}")' in card and 'gym.make("ResourcePool-10-v0", episode_steps=20)' in card


def test_push_takes_a_run_its_normalizer_and_its_card(folder_hub: FolderHub, tmp_path: Path) -> None:
    env = VecNormalize(make_vec_env("VCC-2019-v1", 2, seed=0, days=1), norm_reward=False)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu").learn(16)
    run = tmp_path / "run"
    save_model(model, run, {"algorithm": "ppo", "env_id": "VCC-2019-v1", "env_kwargs": {"days": 1}})
    (run / "README.md").write_text("my own card")
    push_to_hub(REPO, str(run / "model.zip"), "as it is")
    assert (folder_hub.root / REPO / "README.md").read_text() == "my own card"
    saved = load_model(load_from_hub(REPO))
    assert saved.normalizer is not None
    np.testing.assert_array_equal(saved.normalizer.obs_rms.mean, env.obs_rms.mean)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=f"{REPO}: has no file other.zip"):
        load_from_hub(REPO, "other.zip")


@pytest.mark.parametrize("env_id", ["VCC-2019-v1", None])
def test_the_lines_of_the_card_run_with_the_normalizer(
    folder_hub: FolderHub, tmp_path: Path, env_id: Any
) -> None:
    env = VecNormalize(make_vec_env("VCC-2019-v1", 2, seed=0, days=1), norm_reward=False)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu").learn(16)
    save_model(model, tmp_path / "run", {"algorithm": "ppo", "env_id": env_id, "env_kwargs": {"days": 1}})
    push_to_hub(REPO, str(tmp_path / "run"), "with a card")
    card = (folder_hub.root / REPO / "README.md").read_text()
    assert "None" not in card
    made: dict[str, Any] = {}
    exec(card.split("```python\n")[1].split("```")[0], made)
    np.testing.assert_array_equal(made["saved"].normalizer.obs_rms.mean, env.obs_rms.mean)  # type: ignore[union-attr]
    if env_id is not None:
        made["model"].predict(made["env"].reset())
        np.testing.assert_array_equal(made["env"].obs_rms.mean, env.obs_rms.mean)  # type: ignore[union-attr]


def test_nothing_pickled_is_pushed(folder_hub: FolderHub, tmp_path: Path) -> None:
    env = make_vec_env("VCC-2019-v1", 2, seed=0, days=1)
    PPO("MlpPolicy", env, n_steps=8, batch_size=16, device="cpu").save(tmp_path / "model.zip")
    with pytest.raises(ValueError, match="holds pickled code"):
        push_to_hub(REPO, str(tmp_path), "never")
    with pytest.raises(ValueError, match=r"filename=.*must be a run's folder, or its model.zip"):
        push_to_hub(REPO, str(tmp_path / "other.zip"), "never")
    assert not folder_hub.root.exists()


def test_a_damaged_run_is_not_pushed(folder_hub: FolderHub, tmp_path: Path) -> None:
    env = make_vec_env("VCC-2019-v1", 2, seed=0, days=1)
    save_model(PPO("MlpPolicy", env, n_steps=8, batch_size=16, device="cpu"), tmp_path, {"algorithm": "ppo"})
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="damaged, or of another run"):
        push_to_hub(REPO, str(tmp_path), "never")
    assert not folder_hub.root.exists()


def test_without_huggingface_hub(without_module: Callable[[str], None]) -> None:
    without_module("huggingface_hub")
    with pytest.raises(ImportError, match=r"pip install 'sb3-greendc\[hub\]'"):
        load_from_hub(REPO)
