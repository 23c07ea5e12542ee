"""The load of a step: requests of given lengths, processes of clients, and what the engine says meanwhile."""
