"""What people may add to pods, and what Daybreak keeps for itself."""
