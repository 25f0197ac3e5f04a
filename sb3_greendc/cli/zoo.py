"""rl-zoo3's own commands, which know this project: ``python -m sb3_greendc.cli.zoo train --algo ...``."""

from __future__ import annotations

import importlib
import sys

from greendc.config import require_one_of
from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.rl_zoo3_plugin import register

SCRIPTS = ("train", "enjoy")
"""Scripts of rl-zoo3 that build or load models; its others read log files, and need nothing of ours."""


def main() -> None:
    """Register, and hand over to rl-zoo3."""
    with one_line_errors("zoo"):
        script = sys.argv.pop(1) if len(sys.argv) > 1 else ""
        require_one_of("script", script, SCRIPTS)
        register()
        module = importlib.import_module(f"rl_zoo3.{script}")
    getattr(module, script)()


if __name__ == "__main__":
    main()
