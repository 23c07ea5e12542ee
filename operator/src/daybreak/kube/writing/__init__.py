"""Writing: compare, apply, statuses, and single fields of objects that are not ours."""
