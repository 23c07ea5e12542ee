"""What a row's own error is raised as."""


class RowError(Exception):
    """Why no request can be made of a row."""
