"""What needs the embedded cluster with Daybreak."""
