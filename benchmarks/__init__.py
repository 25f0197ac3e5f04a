"""What measures speed: ``python scripts/benchmark.py --help``."""
