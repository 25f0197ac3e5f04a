"""A training run as a command asks for it: folder, logs and checkpoints, beside what is to be trained."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sb3_greendc.core.costs import NoCostError
from sb3_greendc.core.discounting import NoTimeError
from sb3_greendc.core.files import RescuedError, is_output_error
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.runs.checkpoints import CheckpointError, CheckpointFolder, require_same_run
from sb3_greendc.runs.divergence import DivergedError
from sb3_greendc.runs.folder import FolderInUseError, check_manifest, discard, is_finished, locked
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, PICKLED_NORMALIZER_FILE, RUN_FILE, read_run
from sb3_greendc.runs.resume import CheckpointWriter
from sb3_greendc.runs.run_logger import LOGS
from sb3_greendc.runs.training import CHECKPOINTS, Run, open_checkpoints, prepare, train
from sb3_greendc.runs.training_state import require_resumable

ENDS_A_RUN = (CheckpointError, DivergedError, NoCostError, NoTimeError, RescuedError)
"""What ends a training and is said in one line."""


@dataclass(frozen=True)
class Job:
    """One training run as the command was asked for it; what workers get.

    :param out: folder for the model and its record
    :param arguments: of :func:`~sb3_greendc.runs.training.prepare`
    :param formats: SB3's logger formats
    :param progress: show a progress bar
    :param overwrite: replace what ``out`` has
    :param checkpoint_every: steps between checkpoints, ``None`` for no checkpoints
    :param resume: go on from the last checkpoint
    """

    out: Path
    arguments: Mapping[str, Any]
    formats: Sequence[str] = ("csv",)
    progress: bool = False
    overwrite: bool = False
    checkpoint_every: int | None = None
    resume: bool = False

    def check(self) -> Run:
        """Check everything that can be wrong before training, and build the model.

        :raises ValueError: for wrong arguments, or a folder with results of another run
        """
        has_checkpoints = bool(CheckpointFolder(self.out / CHECKPOINTS).paths())
        if not (self.overwrite or self.resume):
            if (self.out / MODEL_FILE).exists():
                raise ValueError(f"--out {self.out}: has a model already; --overwrite replaces it")
            if has_checkpoints:
                raise ValueError(
                    f"--out {self.out}: has checkpoints; --resume goes on from them, "
                    "--overwrite starts from scratch"
                )
        run = prepare(**self.arguments)
        if self.resume and self._is_saved():
            record = read_run(self.out)
            there = {key: record.get(key) for key in run.identity()}
            require_same_run(f"--out {self.out}", there, run.identity())
            if not (record.get("completed") or has_checkpoints):
                raise ValueError(
                    f"--out {self.out}: has the model of an interrupted run without checkpoints; "
                    "--overwrite starts from scratch"
                )
        elif self.resume and (self.out / MODEL_FILE).exists() and not has_checkpoints:
            check_manifest(self.out)
            raise ValueError(f"--out {self.out}: has a model without {RUN_FILE}; --overwrite replaces it")
        return run

    def is_done(self) -> bool:
        """Tell whether the run that is to be resumed was completed."""
        return self.resume and self._is_saved() and bool(read_run(self.out).get("completed"))

    def _is_saved(self) -> bool:
        """Tell whether the folder has the results of a run, whole."""
        return is_finished(self.out, MODEL_FILE, RUN_FILE)

    def open_checkpoints(self, run: Run) -> CheckpointWriter | None:
        """Return what writes the checkpoints, ``None`` if none are wanted; to resume, read the last one.

        What is to be overwritten is removed.

        :param run: what :meth:`check` returned
        :raises ValueError: if checkpoints cannot be made or resumed
        """
        if self.checkpoint_every is not None:
            require_resumable(run.model)
        if self.overwrite:
            discard(self.out, (MODEL_FILE, RUN_FILE, NORMALIZER_FILE, PICKLED_NORMALIZER_FILE, *LOGS))
            CheckpointFolder(self.out / CHECKPOINTS).clear()
        if self.checkpoint_every is None:
            return None
        return open_checkpoints(run, self.out, self.checkpoint_every, self.resume)

    def once_more(self) -> Job:
        """Return the job that goes on where a process that was killed stopped this one."""
        checkpoints = CheckpointFolder(self.out / CHECKPOINTS).paths()
        return replace(self, resume=True, overwrite=False) if checkpoints else replace(self, overwrite=True)

    def carry_out(self) -> Ended:
        """Check, train and save, unless that was done before; return what came of it.

        Errors are part of it, so that one of several jobs does not end the others.

        :raises KeyboardInterrupt: after Ctrl-C, when the model so far has been saved
        """
        try:
            with locked(self.out):
                try:
                    run = self.check()
                    if self.is_done():
                        return Ended(done_before=True)
                    checkpoints = self.open_checkpoints(run)
                except (ImportError, OSError, TypeError, ValueError) as error:
                    return Ended(failure=_in_one_line(error))
                completed = train(run, self.out, self.progress, self.formats, checkpoints)
        except (*ENDS_A_RUN, FolderInUseError) as error:
            return Ended(failure=_in_one_line(error))
        except Exception as error:
            if isinstance(error, OSError) and is_output_error(error):
                return Ended(failure=_in_one_line(error))
            failure = f"{type(error).__name__}: {_in_one_line(error)}"
            return Ended(failure=failure, traceback=without_secrets(traceback.format_exc()))
        if not completed:
            raise KeyboardInterrupt
        return Ended()


@dataclass(frozen=True)
class Ended:
    """What came of a job.

    :param done_before: whether it was done before
    :param failure: what ended it, in one line; ``None`` if it was carried out
    :param traceback: of what ended it, if that was none of the errors that are expected
    """

    done_before: bool = False
    failure: str | None = None
    traceback: str = ""


def _in_one_line(error: Exception) -> str:
    return " ".join(without_secrets(str(error)).split())
