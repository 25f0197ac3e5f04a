"""Models as JSON and tensors: they act and learn on as before, and a file holds nothing that could run."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from algorithm_cases import CASES, toy_vec_env
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import nn

from sb3_greendc import CRR, DiscreteSAC, PIDLagrangianPPO
from sb3_greendc.core import safe_model
from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class
from sb3_greendc.core.safe_model import MODEL_ENTRY, TENSORS_ENTRY, express, read_safe_model
from sb3_greendc.core.safe_values import NotExpressibleError

ROLLOUTS = {"n_steps": 16, "batch_size": 16}
REPLAY = {"buffer_size": 100, "learning_starts": 8}
KWARGS: dict[str, dict[str, Any]] = {
    "a2c": {},
    "ars": {},
    "maskable_ppo": ROLLOUTS,
    "ppo": {
        **ROLLOUTS,
        "use_sde": True,
        "policy_kwargs": {"activation_fn": nn.ReLU, "net_arch": {"pi": [8], "vf": [4]}},
    },
    "recurrent_ppo": {**ROLLOUTS, "policy_kwargs": {"lstm_hidden_size": 8}},
    "trpo": ROLLOUTS,
}
DISCRETE = ("dqn", "qrdqn", "maskable_ppo")
SMALL = {"policy_kwargs": {"net_arch": [8, 8]}}


def trained(name: str) -> BaseAlgorithm:
    if name in CASES:
        return CASES[name].make("dict").learn(64)
    masked = name == "maskable_ppo"
    env = toy_vec_env("masked" if masked else "box", "discrete" if name in DISCRETE else "box")
    policy = "MultiInputPolicy" if masked else "MlpLstmPolicy" if "recurrent" in name else "MlpPolicy"
    kwargs = KWARGS.get(name, {**REPLAY, **copy.deepcopy(SMALL)})
    return algorithm_class(name)(policy, env, seed=0, device="cpu", **kwargs).learn(40)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, th.Tensor):
        return a.dtype == b.dtype and th.equal(a, b)
    return bool(a == b)


def file_of(model: BaseAlgorithm) -> io.BytesIO:
    file = io.BytesIO()
    express(model).write(file)
    file.seek(0)
    return file


def read(file: Any, cls: type[BaseAlgorithm], *args: Any, **kwargs: Any) -> BaseAlgorithm:
    saved = read_safe_model(file)
    assert saved is not None
    return saved.build(cls, *args, **kwargs)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "crr"])
def test_every_algorithm_comes_back_whole(name: str) -> None:
    model = trained(name)
    file = file_of(model)
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == [MODEL_ENTRY, TENSORS_ENTRY]
    alone = read(file, type(model), device="cpu")
    assert same(model.get_parameters(), alone.get_parameters())
    assert set(vars(model)) - set(vars(alone)) <= {"_logger"}
    observations = model.env.reset()
    for given in (observations,):
        a, b = (one.predict(given, deterministic=True)[0] for one in (model, alone))
        np.testing.assert_array_equal(a, b)
    again = read(file, type(model), model.get_env(), device="cpu")
    before = again.num_timesteps
    again.learn(40, reset_num_timesteps=False)
    assert again.num_timesteps > before == model.num_timesteps


@pytest.mark.parametrize("name", ["ppo", "pid_ppo", "recurrent_pid_ppo", "a2c"])
def test_training_goes_on_as_from_sb3s_own_file(name: str) -> None:
    """What is learned after loading does not depend on the form of the file, to the last bit."""
    model = trained(name)
    own = io.BytesIO()
    BaseAlgorithm.save(model, own)
    own.seek(0)
    results = []
    for load in (lambda env: BaseAlgorithm.load.__func__(type(model), own, env, device="cpu"),
                 lambda env: read(file_of(model), type(model), env, device="cpu")):  # fmt: skip
        env = toy_vec_env("dict" if name in CASES else "box", "discrete" if name in CASES else "box")
        env.seed(5)
        loaded = load(env)
        loaded.set_random_seed(7)
        loaded.learn(64, reset_num_timesteps=False)
        results.append(loaded.get_parameters())
    assert same(*results)
    assert not same(results[0], model.get_parameters())


def test_the_same_model_is_the_same_bytes() -> None:
    model = trained("a2c")
    assert file_of(model).getvalue() == file_of(model).getvalue()


def test_our_algorithms_write_this_form_and_read_both(tmp_path: Path) -> None:
    model = CASES["pid_ppo"].make().learn(32)
    model.save(tmp_path / "safe")
    model.save(tmp_path / "sb3", include=())
    kinds = [set(zipfile.ZipFile(tmp_path / name).namelist()) for name in ("safe.zip", "sb3.zip")]
    assert kinds[0] == {MODEL_ENTRY, TENSORS_ENTRY}
    assert "policy.pth" in kinds[1]
    for name in ("safe", "sb3"):
        loaded = PIDLagrangianPPO.load(tmp_path / name, model.get_env(), n_epochs=3)
        assert same(loaded.get_parameters(), model.get_parameters())
        assert loaded.n_epochs == 3
    plain = PIDLagrangianPPO.load(
        tmp_path / "safe", custom_objects={"learning_rate": 0.5, "lr_schedule": None}
    )
    assert plain.learning_rate == 0.5
    with pytest.raises(
        ValueError, match=r"safe.*not a model of DiscreteSAC: it was saved by PIDLagrangianPPO"
    ):
        DiscreteSAC.load(tmp_path / "safe")
    with pytest.raises(ValueError, match="policy_kwargs"):
        PIDLagrangianPPO.load(tmp_path / "safe", policy_kwargs={"net_arch": [3]})


def test_what_is_ones_own_falls_back_on_sb3s_form_with_a_warning(tmp_path: Path) -> None:
    model = CASES["discrete_sac"].make(learning_rate=lambda progress: 1e-3 * progress)
    with pytest.warns(UserWarning, match="saved in SB3's form.*learning_rate: a builtins.function"):
        model.save(tmp_path / "model")
    assert DiscreteSAC.load(tmp_path / "model").lr_schedule(1.0) == 1e-3

    class Own(PPO):
        pass

    with pytest.raises(NotExpressibleError, match="Own: no algorithm"):
        express(Own("MlpPolicy", toy_vec_env("box", "box"), device="cpu"))


def rewrite(path: Path, change: Any = None, tensors: bytes | None = None, **entries: bytes) -> None:
    """Write a file anew with changed JSON, other tensors or more entries."""
    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read(MODEL_ENTRY))
        data = archive.read(TENSORS_ENTRY) if tensors is None else tensors
    if change is not None:
        change(described)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MODEL_ENTRY, json.dumps(described))
        archive.writestr(TENSORS_ENTRY, data)
        for name, value in entries.items():
            archive.writestr(name, value)


def _data(**values: Any) -> Any:
    return lambda described: described["data"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda described: described.update(format=2), "format 2"),
        (lambda described: described.update(algorithm="os"), "algorithm 'os'"),
        (lambda described: described.update(algorithm=[]), "algorithm"),
        (lambda described: described.pop("variables"), "must hold"),
        (_data(policy_class={"$": "class", "name": "os:system"}), "'os:system': none"),
        (_data(policy_class={"$": "class", "name": "torch.nn.modules.activation:Tanh"}), "no policy"),
        (_data(policy_kwargs={"activation_fn": {"$": "class", "name": "builtins:eval"}}), "builtins:eval"),
        (_data(predict=1), "attribute 'predict'"),
        (_data(__class__=1), "attribute '__class__'"),
        (_data(policy_kwargs={"no_such_option": 1}), "no model can be built"),
        (_data(policy_kwargs={"net_arch": [3]}), r"policy\.mlp_extractor\..* of another model"),
        (lambda described: described["data"].pop("action_space"), "attribute 'action_space': missing"),
        (lambda described: described["parameters"].pop("controller"), "parameters"),
        (lambda described: described["parameters"].update(env=1), "parameters"),
    ],
)
def test_a_forged_file_is_one_value_error(tmp_path: Path, change: Any, message: str) -> None:
    CASES["pid_ppo"].make().save(tmp_path / "model.zip")
    rewrite(tmp_path / "model.zip", change)
    with pytest.raises(ValueError, match=message):
        PIDLagrangianPPO.load(tmp_path / "model.zip")


def test_damage_is_one_value_error(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    CASES["pid_ppo"].make().save(path)
    whole = path.read_bytes()
    for place in range(40, len(whole) - 200, len(whole) // 25):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"model\.zip"):
            PIDLagrangianPPO.load(path)
    path.write_bytes(whole)
    rewrite(path, tensors=b"\xff" * 100)
    with pytest.raises(ValueError, match="not a file of tensors"):
        PIDLagrangianPPO.load(path)
    path.write_bytes(whole)
    rewrite(path, **{"state.json": b"{}"})
    PIDLagrangianPPO.load(path)
    rewrite(path, data=b"{}")
    with pytest.raises(ValueError, match=r"holds data, model\.json"):
        PIDLagrangianPPO.load(path)


@pytest.mark.parametrize("algorithm", [CRR, DiscreteSAC, PIDLagrangianPPO])
@pytest.mark.parametrize("name", ["nothing", "nothing.zip"])
def test_a_model_that_is_not_there_is_named_as_it_was_asked_for(
    tmp_path: Path, algorithm: type[BaseAlgorithm], name: str
) -> None:
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path}/{name}: no such model"):
        algorithm.load(tmp_path / name)


def test_a_bomb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MODEL_ENTRY, b" " * (65 * 2**20))
        archive.writestr(TENSORS_ENTRY, b"")
    with pytest.raises(ValueError, match="68,157,440 bytes: must be 67,108,864 at most"):
        CRR.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MODEL_ENTRY, b"{}")
        archive.writestr(TENSORS_ENTRY, b" " * 2**20)
    with pytest.raises(ValueError, match="is compressed"):
        CRR.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MODEL_ENTRY, "[" * 200_000)
        archive.writestr(TENSORS_ENTRY, b"")
    with pytest.raises(ValueError, match="no description of a model"):
        CRR.load(path)


def test_learned_temperatures_and_targets_are_kept() -> None:
    model = SAC(
        "MlpPolicy", toy_vec_env("box", "box"), seed=0, device="cpu", **REPLAY, **copy.deepcopy(SMALL)
    ).learn(40)
    loaded = read(file_of(model), SAC, device="cpu")
    assert th.equal(loaded.log_ent_coef, model.log_ent_coef)
    assert loaded.log_ent_coef != 0
    assert same(loaded.critic_target.state_dict(), model.critic_target.state_dict())


def test_a_disk_that_is_full_leaves_the_model_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CASES["discrete_sac"].make("box")
    model.save(tmp_path / "model")
    before = (tmp_path / "model.zip").read_bytes()

    def full(*_: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safe_model, "tensors_to_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model.zip"]
    assert (tmp_path / "model.zip").read_bytes() == before
