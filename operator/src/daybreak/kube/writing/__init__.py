"""Writes: comparison, apply, statuses, and single fields of objects that Daybreak does not own."""
