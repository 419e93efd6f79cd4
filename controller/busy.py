"""Why a request cannot be decided now."""


class Busy(Exception):
    """The request would change state during a long decision. Nothing was changed; it has to wait."""
