"""What ``scripts/train.py`` says and does of checkpoints."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from command_cases import one_line_error
from gymnasium.envs.classic_control import CartPoleEnv
from resume_cases import ON, VCC, Case, LossOfPowerError, content, cut_off, die_at, same, tensors_of

from greendc.vcc import kernel
from sb3_greendc.cli.train import main
from sb3_greendc.runs.checkpoints import CheckpointFolder
from sb3_greendc.runs.folder import locked
from sb3_greendc.runs.models import load_model
from sb3_greendc.runs.trees import pack_tree, unpack_tree

SMALL = ["--hparams", *(f"{key}={value}" for key, value in ON.items()), "--n-envs", "4", "--no-progress"]
RUN = ["--algo", "ppo", "--env", "VCC-2019", "--timesteps", "256", *SMALL, "--set", f"days={VCC['days']}"]
RUN += ["--checkpoint-every", "64"]


class TestCommand:
    def cut(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave checkpoints at 64 and 128."""
        with monkeypatch.context() as patch:
            die_at(190, cut_off, patch)
            with pytest.raises(LossOfPowerError):
                main([*RUN, "--out", str(out)])

    def error(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
        return one_line_error("train", main, arguments, capsys)

    def test_resume(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        whole, cut = tmp_path / "whole", tmp_path / "cut"
        assert main([*RUN, "--out", str(whole), "--resume"]) == 0  # where there is nothing to resume
        assert "no checkpoint in" in capsys.readouterr().out
        self.cut(cut, monkeypatch)
        newest = CheckpointFolder(cut / "checkpoints").paths()[0]
        newest.write_bytes(newest.read_bytes()[:-1])
        assert main([*RUN, "--out", str(cut), "--resume"]) == 0
        said = capsys.readouterr().out
        assert "step_000000000128.ckpt is damaged: its checksum does not match" in said
        assert "going back to the checkpoint before it, step_000000000064.ckpt" in said
        assert "going on from step 64" in said
        weights = [tensors_of(load_model(out).model) for out in (whole, cut)]
        assert same(*weights)
        record = json.loads((cut / "run.json").read_text())
        assert (record["completed"], record["trained_timesteps"]) == (True, 256)
        # The same command once more has nothing to do, and does nothing.
        model = (cut / "model.zip").read_bytes()
        assert main([*RUN, "--out", str(cut), "--resume"]) == 0
        assert "done before" in capsys.readouterr().out
        assert (cut / "model.zip").read_bytes() == model

    @pytest.mark.parametrize("left", ["no record", "other record", "damaged", "unfinished"])
    def test_resume_where_saving_was_cut_off(
        self, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The checkpoints are whole: what else lies there, of this run or of one before, is replaced."""
        whole, cut = tmp_path / "whole", tmp_path / "cut"
        assert main([*RUN, "--out", str(whole)]) == 0
        self.cut(cut, monkeypatch)
        names = ["model.zip"] if left == "no record" else ["model.zip", "run.json", "MANIFEST.json"]
        for name in names:
            (cut / name).write_bytes((whole / name).read_bytes())
        if left == "other record":
            record = json.loads((whole / "run.json").read_text())
            (cut / "run.json").write_text(json.dumps({**record, "seed": 99}))
        if left == "damaged":
            (cut / "model.zip").write_bytes(b"")
        if left == "unfinished":
            manifest = json.loads((cut / "MANIFEST.json").read_text())
            (cut / "MANIFEST.json").write_text(json.dumps({**manifest, "finished": False}))
        capsys.readouterr()
        assert main([*RUN, "--out", str(cut), "--resume"]) == 0
        assert "going on from step 128" in capsys.readouterr().out
        assert same(*(tensors_of(load_model(out).model) for out in (whole, cut)))

    def test_overwrite_without_checkpoints_removes_those_of_the_old_run(self, tmp_path: Path) -> None:
        assert main([*RUN, "--out", str(tmp_path)]) == 0
        assert main([*RUN[:-2], "--out", str(tmp_path), "--overwrite", "--seed", "4"]) == 0
        assert not (tmp_path / "checkpoints").exists()

    def test_what_cannot_be_checkpointed_overwrites_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([*RUN, "--out", str(tmp_path)]) == 0
        before = content(CheckpointFolder(tmp_path))
        ars = ["--algo", "ars", "--env", "VCC-2019", "--out", str(tmp_path), "--checkpoint-every", "9"]
        assert "ARS cannot be checkpointed" in self.error([*ars, "--overwrite"], capsys)
        assert content(CheckpointFolder(tmp_path)) == before

    def test_a_second_writer_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Whatever it wants there, and before it changes anything; afterwards the folder is free."""
        out = tmp_path / "seed_3"
        with locked(out):
            before = content(CheckpointFolder(tmp_path))
            for more in ([], ["--resume"], ["--overwrite"], ["--seeds", "3", "--out", str(tmp_path)]):
                err = self.error([*RUN, "--out", str(out), *more], capsys)
                assert f"in use by process {os.getpid()} on {socket.gethostname()}, since 20" in err
            assert content(CheckpointFolder(tmp_path)) == before
        assert main([*RUN, "--out", str(out)]) == 0

    def test_bad_input_leaves_no_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "runs" / "new"
        self.error([*RUN, "--out", str(out), "--hparams", "gama=0.9"], capsys)
        assert not (tmp_path / "runs").exists()

    def test_not_another_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.cut(tmp_path, monkeypatch)
        before = content(CheckpointFolder(tmp_path))
        resume = [*RUN, "--out", str(tmp_path), "--resume"]
        said = self.error([*resume, "--hparams", "gamma=0.5", "--seed", "4"], capsys)
        assert "seed: 0 there, 4 here; hyperparameters.gamma: 0.985 there, 0.5 here" in said
        assert "algorithm: 'ppo' there, 'a2c' here" in self.error(
            ["--algo", "a2c", *RUN[2:6], "--out", str(tmp_path), "--resume", "--checkpoint-every", "64"],
            capsys,
        )
        elsewhere = [argument.replace("VCC-2019", "VCC-2021") for argument in resume]
        assert "env_id: 'VCC-2019-v1' there, 'VCC-2021-v1' here" in self.error(elsewhere, capsys)
        longer = [argument.replace("days=1", "days=3") for argument in resume]
        assert "env_kwargs.days: 1 there, 3 here" in self.error(longer, capsys)
        assert "--resume goes on from them, --overwrite starts from scratch" in self.error(
            [*RUN, "--out", str(tmp_path)], capsys
        )
        assert content(CheckpointFolder(tmp_path)) == before

    def test_overwrite_starts_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cut(tmp_path / "run", monkeypatch)
        assert main([*RUN, "--out", str(tmp_path / "run"), "--overwrite", "--seed", "4"]) == 0
        assert main([*RUN, "--out", str(tmp_path / "new"), "--seed", "4"]) == 0
        logs = [(tmp_path / name / "progress.csv").read_text().count("\n") for name in ("run", "new")]
        assert logs[0] == logs[1]

    def test_interrupted_run_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupt(callback: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            die_at(190, interrupt, patch)
            assert main([*RUN, "--out", str(tmp_path)]) == 130
        assert json.loads((tmp_path / "run.json").read_text())["completed"] is False
        assert main([*RUN, "--out", str(tmp_path), "--resume"]) == 0
        assert "going on from step 128" in capsys.readouterr().out

    def test_disk_full(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def full(callback: Any) -> None:
            monkeypatch.setattr(os, "fsync", fails)

        def fails(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            die_at(150, full, patch)
            assert main([*RUN, "--out", str(tmp_path)]) == 1
        monkeypatch.undo()
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "step_000000000192.ckpt: No space left on device; the checkpoints before it are intact" in said
        assert main([*RUN, "--out", str(tmp_path), "--resume"]) == 0
        assert "going on from step 128" in capsys.readouterr().out

    def test_algorithm_without_checkpoints(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--algo", "ars", "--env", "VCC-2019", "--out", str(tmp_path), "--checkpoint-every", "9"]
        assert "ARS cannot be checkpointed" in self.error(arguments, capsys)

    def test_nothing_is_unpickled_nor_compiled_anew(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cut(tmp_path, monkeypatch)
        compiled = list(kernel.step_batch.overloads)  # Numba, too, would unpickle what it has on disk
        for name in ("load", "loads", "Unpickler"):
            monkeypatch.setattr(pickle, name, None)
        assert main([*RUN, "--out", str(tmp_path), "--resume"]) == 0
        assert list(kernel.step_batch.overloads) == compiled

    def test_a_forged_checkpoint_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.cut(tmp_path, monkeypatch)
        folder = CheckpointFolder(tmp_path / "checkpoints")
        header = json.loads(folder.paths()[0].read_bytes().partition(b"\n")[0])
        state = unpack_tree(folder.read(folder.paths()[0]).state)
        state["model"] = [[name, ["fixed", "posix:system"]] for name, _ in state["model"]]
        folder.write(header["step"] + 1, header["identity"], header["versions"], pack_tree(state))
        error = self.error([*RUN, "--out", str(tmp_path), "--resume"], capsys)
        assert "does not fit the run: " in error
        assert "posix:system there" in error

    def test_environment_that_cannot_be_kept_is_found_before_training(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def init(self: Any, **kwargs: Any) -> None:
            original(self, **kwargs)
            self.lock = threading.Lock()

        original = CartPoleEnv.__init__
        monkeypatch.setattr(CartPoleEnv, "__init__", init)
        job = Case("ppo", "CartPole-v1", ON).job(tmp_path)
        run = job.check()
        with pytest.raises(ValueError, match=r"cannot be checkpointed: env\.envs\[0\].*lock: a _thread"):
            job.open_checkpoints(run)

    def test_environment_whose_episodes_cannot_be_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def reset(self: Any, **kwargs: Any) -> Any:
            self.lock = threading.Lock()
            return original(self, **kwargs)

        original = CartPoleEnv.reset
        monkeypatch.setattr(CartPoleEnv, "reset", reset)
        job = Case("ppo", "CartPole-v1", ON).job(tmp_path)
        ended = job.carry_out()
        assert ended.failure is not None and not ended.traceback
        assert re.match(r"the run cannot be checkpointed: env\.envs\[0\].*lock", ended.failure)
        assert not list(tmp_path.rglob("*.ckpt"))

    def test_resume_needs_its_other_option(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "--resume: needs --checkpoint-every N" in self.error(
            [*RUN[:-2], "--out", str(tmp_path), "--resume"], capsys
        )
        assert "--resume and --overwrite contradict each other" in self.error(
            [*RUN, "--out", str(tmp_path), "--resume", "--overwrite"], capsys
        )


def test_tensorboard_forgets_what_came_after_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    arguments = [*RUN, "--tensorboard", "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        die_at(250, cut_off, patch)
        with pytest.raises(LossOfPowerError):
            main(arguments)
    CheckpointFolder(tmp_path / "checkpoints").paths()[0].unlink()
    main([*arguments, "--resume"])
    events = accumulator.EventAccumulator(str(tmp_path), purge_orphaned_data=True).Reload()
    assert [event.step for event in events.Scalars("time/fps")] == [64, 128, 192, 256]
