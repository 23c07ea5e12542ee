"""Container images, built without an image registry."""
