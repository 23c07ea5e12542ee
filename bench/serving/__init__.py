"""Custom applications on Ray Serve."""
