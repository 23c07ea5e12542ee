"""Decision on a benchmark, from its observation."""
