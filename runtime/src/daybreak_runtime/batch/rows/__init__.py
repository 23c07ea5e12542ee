"""A row: read from a table, made into a request, and its images decoded."""
