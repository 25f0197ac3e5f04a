"""The parts of ``tools/golden.py``: what each records, and what they share."""
