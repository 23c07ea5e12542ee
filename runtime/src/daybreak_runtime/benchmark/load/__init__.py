"""Load of a step: requests of given lengths, client processes, and the engine's metrics during it."""
