"""RLScheduler's table (SC 2020): printed, and ours on the same traces, under its rules and the textbook's."""
