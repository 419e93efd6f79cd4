"""How an invariant says that it does not hold: by its name."""


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name


def demand(name: str, holds: object, reason: str) -> None:
    """Raises Violation unless the invariant of this name holds."""
    if not holds:
        raise Violation(name, reason)
