"""The configs of a broker as one of its listeners sees them: its own override those of all listeners."""

from collections.abc import Mapping

from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.config_definitions.values import ConfigValue, typed_value
from klamm.controller.settings import SettingsError
from klamm.protocol.errors import ApiError


class ListenerConfigs:
    """The configs of a broker as one listener sees them."""

    def __init__(self, name: str, configs: Mapping[str, str], release: str = NEWEST) -> None:
        """`release`: the one as which the listener acts, whose defaults apply."""
        self.name = name
        self._release = release
        self._configs = configs
        self._prefix = f"listener.name.{name.lower()}."

    def named(self, name: str, mechanism: str = "") -> str:
        """The name of the config that applies: the listener's own, or that of all listeners."""
        own = self._prefix + (f"{mechanism.lower()}." if mechanism else "") + name
        return own if own in self._configs else self._prefix + name if self._prefix + name in self._configs else name

    def text(self, name: str, mechanism: str = "") -> str | None:
        """The text of a config; None: it is not set."""
        return self._configs.get(self.named(name, mechanism))

    def value(self, name: str, mechanism: str = "") -> ConfigValue:
        """The value of a config, or its default."""
        definition = broker_definitions(self._release).get(name) or broker_definitions()[name]
        text = self.text(name, mechanism)
        value = typed_value(definition, definition.default or "" if text is None else text)
        assert not isinstance(value, ApiError), "values were checked when the settings were made"
        return value

    def refuse(self, name: str, reason: str, mechanism: str = "") -> SettingsError:
        """The error about a config of this listener."""
        return SettingsError(f"listener {self.name}: {self.named(name, mechanism)}: {reason}")
