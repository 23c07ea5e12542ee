"""Steps of `.ci/run`, with the standard library only: they start before an environment exists."""
