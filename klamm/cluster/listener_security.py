"""The security of a listener from Kafka's configs: which mechanisms, whose passwords, which delays.

A config of one listener (`listener.name.NAME.…`, for one mechanism `listener.name.NAME.MECHANISM.…`) overrides the
config of all. Invalid values raise SettingsError with one line that names the setting and no secret.
"""

from collections.abc import Mapping
from typing import Final, cast

from klamm.cluster.listener_configs import ListenerConfigs
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.settings import SettingsError
from klamm.server.listeners import SecurityProtocol
from klamm.server.sasl.jaas import JaasError, LoginModule, decode_jaas
from klamm.server.sasl.oauthbearer import TokenValidator
from klamm.server.sasl.settings import SaslSettings
from klamm.server.security import ListenerSecurity

_MECHANISMS: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_CALLBACKS: Final = "sasl.server.callback.handler.class"
_REAUTH: Final = "connections.max.reauth.ms"
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH: Final = "OAUTHBEARER"
_OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = {
    "PLAIN": _PLAIN_MODULE,
    "SCRAM-SHA-256": _SCRAM_MODULE,
    "SCRAM-SHA-512": _SCRAM_MODULE,
    _OAUTH: _OAUTH_MODULE,
}
"""The login module of each mechanism that is served."""
_PLAIN_USER: Final = "user_"


def listener_security(
    name: str, protocol: SecurityProtocol, configs: Mapping[str, str], release: str = NEWEST
) -> ListenerSecurity | None:
    """What the listener demands; None: nothing. `release`: the one as which it acts. Raises SettingsError."""
    if protocol is SecurityProtocol.PLAINTEXT:
        return None
    own = ListenerConfigs(name, configs, release)
    sasl = _sasl(own) if protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL) else None
    if protocol is SecurityProtocol.SASL_PLAINTEXT:
        return ListenerSecurity(sasl=sasl)
    from klamm.cluster.listener_tls import listener_tls

    return ListenerSecurity(sasl=sasl, tls=listener_tls(own))


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
        validate_token=_token_validator(own, modules[_OAUTH]) if _OAUTH in modules else None,
        max_reauth_ms={mechanism: cast("int", own.value(_REAUTH, mechanism)) for mechanism in mechanisms},
        failed_delay_ms=cast("int", own.value("connection.failed.authentication.delay.ms")),
        max_receive_bytes=cast("int", own.value("sasl.server.max.receive.size")),
    )


def _login_module(own: ListenerConfigs, mechanism: str) -> LoginModule:
    if own.text(_CALLBACKS, mechanism) and mechanism != _OAUTH:
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


def _token_validator(own: ListenerConfigs, module: LoginModule) -> TokenValidator:
    from klamm.cluster.listener_oauth import token_validator

    return token_validator(own, module)


def _plain_users(module: LoginModule | None) -> dict[str, str]:
    options = {} if module is None else module.options
    return {
        name.removeprefix(_PLAIN_USER): password for name, password in options.items() if name.startswith(_PLAIN_USER)
    }
