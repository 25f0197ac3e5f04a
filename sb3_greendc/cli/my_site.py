"""``greendc my-site``: from a job log, power and carbon data to a report and a policy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sb3_greendc.cli import reproduce
from sb3_greendc.experiments.my_site import NAME


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    return reproduce.build_site_parser()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return reproduce.main([NAME, *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
