"""The security of a listener from Kafka's configs: which mechanisms, whose passwords, which delays.

A config of one listener (`listener.name.NAME.…`, for one mechanism `listener.name.NAME.MECHANISM.…`) overrides the
config of all. Invalid values raise SettingsError with one line that names the setting and no secret.
"""

from collections.abc import Mapping
from typing import Final, cast

from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.config_definitions.values import ConfigValue, typed_value
from klamm.controller.settings import SettingsError
from klamm.protocol.errors import ApiError
from klamm.server.listeners import SecurityProtocol
from klamm.server.sasl.jaas import JaasError, LoginModule, decode_jaas
from klamm.server.sasl.settings import SaslSettings
from klamm.server.security import ListenerSecurity

_MECHANISMS: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_CALLBACKS: Final = "sasl.server.callback.handler.class"
_REAUTH: Final = "connections.max.reauth.ms"
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_MODULES: Final = {"PLAIN": _PLAIN_MODULE}
"""The login module of each mechanism that is served."""
_PLAIN_USER: Final = "user_"


def listener_security(name: str, protocol: SecurityProtocol, configs: Mapping[str, str]) -> ListenerSecurity | None:
    """What the listener demands; None: nothing. Raises SettingsError."""
    if protocol is SecurityProtocol.PLAINTEXT:
        return None
    own = ListenerConfigs(name, configs)
    if protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
        raise SettingsError(f"listener {name}: security protocol {protocol.name} is not supported; TLS is not")
    return ListenerSecurity(sasl=_sasl(own))


class ListenerConfigs:
    """The configs of a broker as one listener sees them."""

    def __init__(self, name: str, configs: Mapping[str, str]) -> None:
        self.name = name
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
        definition = broker_definitions()[name]
        text = self.text(name, mechanism)
        value = typed_value(definition, definition.default or "" if text is None else text)
        assert not isinstance(value, ApiError), "values were checked when the settings were made"
        return value

    def refuse(self, name: str, reason: str, mechanism: str = "") -> SettingsError:
        """The error about a config of this listener."""
        return SettingsError(f"listener {self.name}: {self.named(name, mechanism)}: {reason}")


def _sasl(own: ListenerConfigs) -> SaslSettings:
    mechanisms = tuple(cast("tuple[str, ...]", own.value(_MECHANISMS)))
    if not mechanisms:
        raise own.refuse(_MECHANISMS, "at least one mechanism is needed")
    for mechanism in mechanisms:
        if mechanism not in _MODULES:
            default = "" if own.text(_MECHANISMS) is not None else " (the default)"
            served = ", ".join(_MODULES)
            raise own.refuse(_MECHANISMS, f"{mechanism}{default} is not supported; the mechanisms are {served}")
    modules = {mechanism: _login_module(own, mechanism) for mechanism in mechanisms}
    return SaslSettings(
        mechanisms=tuple(in_hash_order(mechanisms)),
        plain_users=_plain_users(modules.get("PLAIN")),
        max_reauth_ms={mechanism: cast("int", own.value(_REAUTH, mechanism)) for mechanism in mechanisms},
        failed_delay_ms=cast("int", own.value("connection.failed.authentication.delay.ms")),
        max_receive_bytes=cast("int", own.value("sasl.server.max.receive.size")),
    )


def _login_module(own: ListenerConfigs, mechanism: str) -> LoginModule:
    if own.text(_CALLBACKS, mechanism):
        raise own.refuse(_CALLBACKS, "classes in Java cannot be loaded here", mechanism)
    text = own.text(_JAAS, mechanism)
    wanted = f"{_MODULES[mechanism]} required …;"
    if text is None:
        name = f"listener.name.{own.name.lower()}.{mechanism.lower()}.{_JAAS}"
        raise SettingsError(f"listener {own.name}: {name} is not set; {mechanism} needs it: {wanted}")
    try:
        module = decode_jaas(text)
    except JaasError as error:
        raise own.refuse(_JAAS, str(error), mechanism) from None
    if module.class_name != _MODULES[mechanism]:
        raise own.refuse(_JAAS, f"the login module of {mechanism} must be {_MODULES[mechanism]}", mechanism)
    return module


def _plain_users(module: LoginModule | None) -> dict[str, str]:
    options = {} if module is None else module.options
    return {
        name.removeprefix(_PLAIN_USER): password for name, password in options.items() if name.startswith(_PLAIN_USER)
    }
