"""What a ServeApplication becomes."""
