"""The algorithms on problems that others made: classic control, MinAtar, job shops, and limits on a cost."""
