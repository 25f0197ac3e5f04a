"""Training runs: hyperparameter files, training, checkpoints, resume, saved models, shipped policies."""
