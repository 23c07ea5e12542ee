"""Exception of this package; the user sees its text as one line."""


class ClusterError(Exception):
    """Problem of the machine or of a part of the cluster; the message has the problem and the nearest fix."""
