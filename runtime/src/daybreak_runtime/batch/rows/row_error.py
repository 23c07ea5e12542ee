"""Exception for the error of a single row."""


class RowError(Exception):
    """Reason why no request can be made from a row."""
