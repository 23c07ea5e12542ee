"""Views of RayServices and Ray pods as typed values."""
