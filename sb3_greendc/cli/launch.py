"""How scripts start a command: signals, and a disk that takes no more, end it in one line at any moment."""

from __future__ import annotations

import importlib
import io
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Any

from sb3_greendc.cli.termination import TERMINATED, interrupted_by_term

_FAILED = 1
_INTERRUPTED = 130
BROKEN_PIPE = 141
"""What shells say of a command that a pipe ended."""


def run(name: str, argv: Sequence[str] | None = None, module: str | None = None) -> int:
    """Run a command and return its exit code.

    SIGTERM and SIGHUP end it as Ctrl-C does, and what it keeps then is kept, with the code of SIGTERM.

    :param name: of the command
    :param argv: its arguments; default: those of the process
    :param module: that has its ``main``; default: the one of that name in :mod:`sb3_greendc.cli`
    """

    def leave(signum: int, frame: Any) -> None:
        # While libraries are imported there is nothing to keep, and much that would catch an exception.
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(_INTERRUPTED)

    for stream in (sys.stdout, sys.stderr):  # no result is lost to a terminal that lacks a sign of its table
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")
    before = signal.signal(signal.SIGINT, leave)
    command = importlib.import_module(module or f"sb3_greendc.cli.{name}")
    signal.signal(signal.SIGINT, before)
    from greendc.compile_notice import tell

    tell(lambda message: print(f"{name}: {message}", file=sys.stderr, flush=True))
    try:
        with interrupted_by_term() as came:
            code = _run(name, command, argv, came)
    finally:
        tell(None)
    return TERMINATED if came and code == _INTERRUPTED else code


def _run(name: str, command: Any, argv: Sequence[str] | None, came: Sequence[int]) -> int:
    """Run an imported command and return its exit code.

    :param came: the signals that asked for its end
    """
    from sb3_greendc.core.files import is_output_error

    try:
        code: int = command.main(argv)
        if sys.stdout is not None:  # as where it is closed
            sys.stdout.flush()
    except BrokenPipeError:
        if not nobody_reads():  # but a process or a server has gone
            raise
        return BROKEN_PIPE
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich's consoles end the process by themselves
            return BROKEN_PIPE
        raise
    except KeyboardInterrupt:
        print(f"{name}: {'terminated' if came else 'interrupted'}", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        if not is_output_error(error):
            raise
        said = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: error: {where}{' '.join(said.split())}", file=sys.stderr)
        return _FAILED
    return code


def nobody_reads() -> bool:
    """Tell whether the reader of the output has gone, as in ``| head``; what it has not read is dropped."""
    if not hasattr(select, "poll"):  # Windows, where no pipe that broke says so
        return False
    output = select.poll()
    output.register(1, 0)
    gone = any(event & select.POLLERR for _, event in output.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return gone
