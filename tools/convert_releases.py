"""Convert older releases, ``policy.npz``, to ``policy.safetensors``: the same tensors, bit for bit.

For maintainers: ``python tools/convert_releases.py [FOLDER]`` (default: ``pretrained/`` of the checkout).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from greendc.shipped.release import CARD_FILE, releases
from sb3_greendc.runs.pretrained import ARRAYS_FILE, load_pretrained, write_release


def main() -> int:
    """Convert every release of a folder that is of the older form; return the exit code."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "pretrained"
    os.environ["GREENDC_PRETRAINED"] = str(folder)
    for name, release in releases().items():
        old = folder / name / ARRAYS_FILE
        if old.is_file():
            card = (folder / name / CARD_FILE).read_text(encoding="utf-8")
            write_release(folder / name, load_pretrained(name), release, card)
            old.unlink()
            print(f"converted: {folder / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
