"""Jobs of a kind: how far one is, what to do next about it, and what its status says; pure."""
