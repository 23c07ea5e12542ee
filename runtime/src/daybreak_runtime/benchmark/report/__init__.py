"""Report of a benchmark: a page with curves, a table and text."""
