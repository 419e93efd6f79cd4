"""The properties of one client as text, and the errors about them."""

from collections.abc import Mapping

from klamm.protocol.printable import printable


class InvalidClientProperties(ValueError):
    """Settings that cannot be used. The text is one line for users."""


class ClientConfigs:
    """The properties of one client, with the errors about them."""

    def __init__(self, properties: Mapping[str, str], origin: str = "") -> None:
        """`origin` is the file that they are from."""
        self.properties = properties
        self._origin = f"{printable(origin)}: " if origin else ""

    def named(self, name: str) -> str:
        """The name of a config, as error texts have it."""
        return name

    def text(self, name: str) -> str | None:
        """The text of a config; None: it is not set."""
        value = self.properties.get(name)
        return value if value is None or name.endswith((".password", ".jaas.config")) else value.strip()

    def refuse(self, name: str, reason: str) -> InvalidClientProperties:
        """The error about a config."""
        return InvalidClientProperties(f"{self._origin}{name}: {reason}")
