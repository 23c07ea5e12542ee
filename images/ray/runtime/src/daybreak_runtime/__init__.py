"""What Daybreak runs inside Ray pods."""
