"""``greendc COMMAND ...``: all commands in one, as ``pip install`` provides them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sb3_greendc.cli.launch import BROKEN_PIPE, nobody_reads, run
from sb3_greendc.core.commands import PROGRAM, module_of

COMMANDS = {
    "train": "train an algorithm on an environment or a data set",
    "evaluate": "judge policies on the same episodes",
    "plot": "draw results and training logs",
    "tune": "search for hyperparameters",
    "collect": "record a data set of what policies do",
    "clone": "learn to repeat what was done in a data set",
    "calibrate": "find a limit on the cost of an episode",
    "my-site": "from your job log, power and carbon data to a report and a policy",
    "reproduce": "repeat the experiments of the papers",
    "planners": "how far policies are from the best possible",
    "decide": "advise a live cluster or pool which waiting jobs to start now",
    "slurm": "advise a partition of Slurm, and release the jobs to start",
    "demo": "train, judge and show in minutes",
    "benchmark": "measure how fast the environments are",
    "fetch": "make or fetch data: emissions, jobs, power from weather",
    "completion": "print what completes these commands in a shell",
}
"""The commands and what each does, in the order of the help."""

_BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names and return its exit code.

    :param argv: arguments; default: those of the process
    """
    name, *arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        try:
            print(usage(), flush=True)
        except BrokenPipeError:
            return BROKEN_PIPE if nobody_reads() else 1
        return 0
    if name == "--version":
        from sb3_greendc.core.provenance import version_of

        print(f"sb3-greendc {version_of('sb3-greendc')}")
        return 0
    if name not in COMMANDS:
        from greendc.config import nearest

        hint = nearest(name, COMMANDS)
        print(
            f"{PROGRAM}: error: unknown command {name!r}{hint} (there are {', '.join(COMMANDS)})",
            file=sys.stderr,
        )
        return _BAD_INPUT
    return run(name, arguments, module_of(name))


def usage() -> str:
    """Return the help of the program: a line for each command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {does}" for name, does in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND [OPTIONS]",
            "",
            "Train and compare job schedulers for datacenters on renewable power.",
            "",
            "commands:",
            *lines,
            "",
            f"{PROGRAM} COMMAND --help  the options of a command",
            f"{PROGRAM} --version       the version",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
