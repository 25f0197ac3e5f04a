"""What every algorithm shares: masks, vectorised environments, costs, discounts, parallel tasks, files."""
