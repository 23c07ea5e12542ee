"""What `.ci/run` does. Only the standard library: it starts before there is an environment."""
