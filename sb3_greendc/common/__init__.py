"""What every algorithm and command shares: masks, vectorised environments, evaluation, statistics."""
