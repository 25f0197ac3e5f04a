"""Who holds something that processes on several machines share, and whether it is known to be dead."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def claim() -> dict[str, Any]:
    """Return what identifies this process: machine, boot, in containers namespace, and process id."""
    return {**_namespace(), "pid": os.getpid()}


def is_dead(claimed: Mapping[str, Any]) -> bool:
    """Tell whether the process of a claim is known to be dead: its id is of this namespace, and unused.

    Of processes elsewhere nothing is known; nor where the system does not tell namespaces apart.
    """
    here = _namespace()
    if not here["boot"] or any(claimed.get(key) != here[key] for key in here):
        return False
    try:
        os.kill(claimed["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it lives, as somebody else's
        return False
    return False


def _namespace() -> dict[str, str]:
    """Return what tells where a process id means something."""
    boot = ""
    with contextlib.suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        boot = f"{boot_id} {os.readlink('/proc/self/ns/pid')}"
    return {"host": socket.gethostname(), "boot": boot}
