"""The one exception of this package: its text is the line that the user sees."""


class ClusterError(Exception):
    """Something about the machine or a part of the cluster is wrong; the message says what and the nearest
    fix.
    """
