"""Start Python programs as forks of a process that has imported the large libraries, and nothing of ours.

``python fork_server.py`` reads a line of JSON for each program: its ``arguments`` (``-c CODE`` or a script,
and what follows), folder, and the files for what it prints. It answers with the exit code. ``programs.py``
asks it.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import sys
import types
from pathlib import Path
from typing import Any

LIBRARIES = (
    *("gymnasium", "matplotlib", "numba", "optuna", "pandas", "rich.progress", "sb3_contrib"),
    *("scipy.optimize", "scipy.sparse", "scipy.stats", "sqlalchemy", "stable_baselines3"),
    *("torch", "torch._dynamo"),  # the first optimizer of a process imports the second
)


def next_program() -> dict[str, Any] | None:
    """Answer until there is a program to run, in a fork; ``None`` when there will be no more."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            order: dict[str, Any] = json.loads(line)
            return order
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(code, flush=True)
    return None


def run(arguments: list[str], folder: str, out: str, err: str) -> None:
    """Do what ``python ARGUMENTS`` does, in a folder."""
    for path, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_RDWR), descriptor)
    os.chdir(folder)
    first, *more = arguments
    if first != "-c":
        sys.argv, sys.path[0] = arguments, str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")
        return
    code, *sys.argv[1:] = more
    sys.argv[0], sys.path[0] = "-c", ""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    order = next_program()
    if order is not None:
        run(**order)
