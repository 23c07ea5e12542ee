"""What follows from it."""
