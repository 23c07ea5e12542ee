"""What a service should do next: pure decisions over what is seen and the time."""
