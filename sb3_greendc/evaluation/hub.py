"""Models on the Hugging Face Hub: tensors and JSON with a model card, by the names of ``huggingface_sb3``.

A repository holds the files of a run: ``model.zip`` (JSON and safetensors), ``run.json``,
``normalizer.json`` for models trained under ``VecNormalize``, the manifest with their checksums, and
``README.md``, the card. Nothing in them is pickled, and nothing that is pickled is pushed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from greendc.config import require
from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.safe_model import express
from sb3_greendc.core.secrets import values_without_secrets
from sb3_greendc.evaluation.masked_evaluation import evaluate_policy
from sb3_greendc.runs.folder import MANIFEST
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, RUN_FILE, load_model, save_model
from sb3_greendc.runs.training import versioned

CARD = "README.md"
RESULTS_FILE = "results.json"
_RUN = (MODEL_FILE, RUN_FILE, NORMALIZER_FILE, MANIFEST)
_BESIDE = (*_RUN[1:], RESULTS_FILE)


def import_hub() -> Any:
    """Return the module ``huggingface_hub``.

    :raises ImportError: with the line that installs it
    """
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            "the Hub needs huggingface_hub: pip install 'sb3-greendc[hub]' (or save the run's folder)"
        ) from error
    return huggingface_hub


def package_to_hub(
    model: BaseAlgorithm,
    model_name: str,
    model_architecture: str,
    env_id: str,
    eval_env: gym.Env[Any, Any] | VecEnv,
    repo_id: str,
    commit_message: str,
    is_deterministic: bool = True,
    n_eval_episodes: int = 10,
    token: str | None = None,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
) -> str:
    """Evaluate a model, write its card, and push it to the Hub; ``huggingface_sb3`` has a function like it.

    A model that needs action masks is given them.

    :param model: the model; the normaliser of its environment, if it has one, is pushed with it
    :param model_name: what the card calls it
    :param model_architecture: name of the algorithm, such as ``"PPO"``
    :param env_id: environment that it was trained in
    :param eval_env: environment, or a batch of them, that it is evaluated in; for a model trained under
        ``VecNormalize`` one that normalises, too
    :param repo_id: ``OWNER/NAME``; made if there is none
    :param commit_message: of the commit
    :param is_deterministic: the most likely actions in the evaluation
    :param n_eval_episodes: number of episodes
    :param token: of the Hub; default: that of ``huggingface-cli login``
    :param env_kwargs: keyword arguments of the environment, for the card and the record
    :return: address of the commit
    :raises ImportError: without ``huggingface_hub``; with the line that installs it
    :raises ValueError: if the model cannot be kept without pickled code; says what of it
    """
    import_hub()
    safe = express(model)
    mean, std = evaluate_policy(model, eval_env, n_eval_episodes, deterministic=is_deterministic)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = {
            "algorithm": safe.algorithm,
            "env_id": versioned(env_id),
            "env_kwargs": dict(env_kwargs or {}),
            "name": model_name,
            "architecture": model_architecture,
            **provenance(),
        }
        save_model(model, folder, run)
        results = {
            "mean_reward": mean,
            "std_reward": std,
            "is_deterministic": is_deterministic,
            "n_eval_episodes": n_eval_episodes,
        }
        write_json(folder / RESULTS_FILE, results)
        return push_to_hub(repo_id, str(folder), commit_message, token)


def push_to_hub(repo_id: str, filename: str, commit_message: str, token: str | None = None) -> str:
    """Push the model of a run to the Hub, with a card unless there is a ``README.md`` beside it.

    :param repo_id: ``OWNER/NAME``; made if there is none
    :param filename: folder of a run, or its ``model.zip``
    :param commit_message: of the commit
    :param token: of the Hub; default: that of ``huggingface-cli login``
    :return: address of the commit
    :raises ImportError: without ``huggingface_hub``; with the line that installs it
    :raises ValueError: if there is no such model, it is damaged, or it holds pickled code
    """
    path = Path(filename)
    path = path / MODEL_FILE if path.is_dir() else path
    require(path.name == MODEL_FILE, "filename", filename, f"a run's folder, or its {MODEL_FILE}")
    saved = load_model(path)  # what would not load there is not pushed
    api = import_hub().HfApi(token=token)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for one in (MODEL_FILE, *_BESIDE, CARD):
            if (path.parent / one).is_file():
                (folder / one).write_bytes((path.parent / one).read_bytes())
        if not (folder / CARD).is_file():
            with atomic_write(folder / CARD) as file:
                file.write(_card(repo_id, type(saved.model).__name__, saved.run, folder).encode())
        api.create_repo(repo_id=repo_id, exist_ok=True)
        commit = api.upload_folder(repo_id=repo_id, folder_path=str(folder), commit_message=commit_message)
    return str(commit)


def load_from_hub(repo_id: str, filename: str = MODEL_FILE) -> str:
    """Fetch a model from the Hub, and return where it lies.

    :func:`~sb3_greendc.runs.models.load_model` reads it, with its record and its normaliser.

    :param repo_id: ``OWNER/NAME``
    :param filename: of the model in the repository; what lies beside it, and belongs to it, is fetched too
    :return: path of the file on this machine
    :raises ImportError: without ``huggingface_hub``; with the line that installs it
    :raises ValueError: if the repository has no such file
    """
    within = Path(filename).parent
    wanted = [filename, *((within / one).as_posix() for one in _BESIDE)]
    folder = Path(import_hub().snapshot_download(repo_id=repo_id, allow_patterns=wanted))
    if not (folder / filename).is_file():
        raise ValueError(f"{repo_id}: has no file {filename}")
    return str(folder / filename)


def _card(repo_id: str, algorithm: str, run: Mapping[str, Any], folder: Path) -> str:
    """Return the card: the Hub's metadata, what the model is, how to load it, how it scored."""
    env_id = run.get("env_id")
    name = run.get("architecture", algorithm)
    tags = [
        *([] if env_id is None else [env_id]),
        "deep-reinforcement-learning",
        "reinforcement-learning",
        "stable-baselines3",
        "sb3-greendc",
    ]
    head: dict[str, Any] = {"library_name": "stable-baselines3", "tags": tags}
    results = json.loads((folder / RESULTS_FILE).read_text()) if (folder / RESULTS_FILE).is_file() else None
    scored = ["No evaluation was pushed with it."]
    if results is not None:
        score = f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}"
        metric = {"type": "mean_reward", "value": score, "name": "mean_reward", "verified": False}
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        where = env_id or "unknown"
        result = {"task": task, "dataset": {"name": where, "type": where}, "metrics": [metric]}
        head["model-index"] = [{"name": name, "results": [result]}]
        how = "most likely" if results["is_deterministic"] else "drawn"
        scored = [f"Return of an episode: {score} ({results['n_eval_episodes']} episodes, {how} actions)."]
    env_kwargs = values_without_secrets(run.get("env_kwargs") or {})  # of records of before, too
    steps = run.get("trained_timesteps") or run.get("timesteps")
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False).strip(),
        "---",
        "",
        f"# {run.get('name', name)}",
        "",
        f"{name}, trained"
        + ("" if env_id is None else f" in `{env_id}`")
        + (f" for {steps:,} steps." if isinstance(steps, int) else "."),
        "",
        "```python",
        *_loading(repo_id, env_id, env_kwargs, (folder / NORMALIZER_FILE).is_file()),
        "```",
        "",
        "The files hold tensors (safetensors) and JSON. Loading them runs no code.",
        "",
        "## Evaluation",
        "",
        *scored,
        "",
        "## Origin",
        "",
        f"Made with {_versions(run)}.",
        "",
    ]
    return "\n".join(lines)


def _loading(repo_id: str, env_id: str | None, env_kwargs: Mapping[str, Any], normalized: bool) -> list[str]:
    """Return the lines of Python that load the model, and make the environment that it sees."""
    settings = "".join(f", {key}={value!r}" for key, value in env_kwargs.items())
    loading = f'load_model(load_from_hub("{repo_id}"))'
    if env_id is None:
        return [
            "from sb3_greendc import load_from_hub",
            "from sb3_greendc.runs.models import load_model",
            "",
            f"saved = {loading}",
            "model = saved.model"
            + ("  # of observations as saved.normalizer makes them" if normalized else ""),
        ]
    if normalized:
        return [
            "import greendc",
            "from sb3_greendc import load_from_hub, make_vec_env",
            "from sb3_greendc.runs.models import attach, load_model",
            "",
            f"saved = {loading}",
            f'env = attach(saved.normalizer, make_vec_env("{env_id}", 1{settings}))',
            "model = saved.model",
        ]
    return [
        "import gymnasium as gym",
        "",
        "import greendc",
        "from sb3_greendc import load_from_hub",
        "from sb3_greendc.runs.models import load_model",
        "",
        f"model = {loading}.model",
        f'env = gym.make("{env_id}"{settings})',
    ]


def _versions(run: Mapping[str, Any]) -> str:
    versions = run.get("versions")
    if not isinstance(versions, Mapping):
        return "sb3-greendc"
    return ", ".join(f"{package} {version}" for package, version in versions.items())
