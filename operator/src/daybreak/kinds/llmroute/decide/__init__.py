"""Decision on the backends of each name, from the observation."""
