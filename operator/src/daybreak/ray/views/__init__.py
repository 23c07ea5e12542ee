"""RayServices and Ray pods, read into types."""
