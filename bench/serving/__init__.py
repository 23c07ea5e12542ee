"""Applications of one's own on Ray Serve."""
