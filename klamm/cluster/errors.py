"""What a cluster in the caller's event loop raises."""


class ClusterError(Exception):
    """The cluster cannot start, or a broker operation is not possible. The text is one clause."""
