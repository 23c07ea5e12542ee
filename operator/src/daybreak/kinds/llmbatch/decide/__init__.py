"""Decision on a batch, from its observation."""
