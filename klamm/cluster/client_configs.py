"""The settings with which client libraries connect to a cluster, in each library's own words.

Standard library alone: `klamm.ServerProcess.client_config` and `klamm.Cluster.client_config` use it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TRUSTSTORE_PASSWORD: Final = "klamm"
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS: Final = tuple(_LOGIN_MODULES)


class NoClientConfig(ValueError):
    """The library has no settings for this access. The text is one clause."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a client connects, and as whom."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    user: str | None = None
    password: str | None = None
    mechanism: str = "PLAIN"
    directory: Path | None = None
    """The directory with the files of the throw-away authority."""

    @property
    def ca(self) -> str | None:
        return None if self.directory is None else str(self.directory / "ca.pem")

    @property
    def certificate(self) -> str | None:
        """The user's key and certificate, if those are how it is known."""
        if self.directory is None or self.user is None or self.protocol != "SSL":
            return None
        return str(self.directory / f"{self.user}.pem")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")


def client_config(library: str, access: Access) -> dict[str, Any]:
    """The settings for one library. Raises NoClientConfig for a library that is not known here."""
    if library not in _LIBRARIES:
        raise NoClientConfig(f"library {library!r}: one of {', '.join(_LIBRARIES)} is expected")
    return _LIBRARIES[library](access)


def access_of(
    servers: str,
    security: str | None,
    users: Mapping[str, str],
    user: str | None,
    mechanism: str,
    directory: Path | None,
) -> Access:
    """How `user` connects to a cluster with these options. Raises NoClientConfig."""
    if mechanism not in MECHANISMS:
        raise NoClientConfig(f"mechanism {mechanism!r}: one of {', '.join(MECHANISMS)} is expected")
    if user is not None and user not in users:
        raise NoClientConfig(f"user {user!r}: the cluster has {', '.join(users) or 'none'}")
    protocol = (security or ("sasl_plaintext" if users else "plaintext")).upper()
    if user is None and protocol.startswith("SASL"):
        user = next(iter(users))
    return Access(
        bootstrap_servers=servers,
        protocol=protocol,
        user=user,
        password=users.get(user or ""),
        mechanism=mechanism,
        directory=directory,
    )


def _klamm(access: Access) -> dict[str, Any]:
    """The arguments of `klamm.AdminClient`."""
    config: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.protocol,
        "ca_file": access.ca,
        "certificate_file": access.certificate,
    }
    if access.has_sasl:
        config |= {"user": access.user, "password": access.password, "mechanism": access.mechanism}
    return {name: value for name, value in config.items() if value is not None}


def _confluent_kafka(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.protocol}
    if access.ca is not None:
        config["ssl.ca.location"] = access.ca
    if access.certificate is not None:
        config |= {"ssl.certificate.location": access.certificate, "ssl.key.location": access.certificate}
    if access.has_sasl:
        config |= {
            "sasl.mechanism": access.mechanism,
            "sasl.username": access.user,
            "sasl.password": access.password,
        }
    return config


def _kafka_python(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": access.bootstrap_servers, "security_protocol": access.protocol}
    if access.ca is not None:
        config["ssl_cafile"] = access.ca
    if access.certificate is not None:
        config |= {"ssl_certfile": access.certificate, "ssl_keyfile": access.certificate}
    return config | _python_sasl(access)


def _aiokafka(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": access.bootstrap_servers, "security_protocol": access.protocol}
    if access.ca is not None:
        import ssl

        context = ssl.create_default_context(cafile=access.ca)
        if access.certificate is not None:
            context.load_cert_chain(access.certificate)
        config["ssl_context"] = context
    return config | _python_sasl(access)


def _python_sasl(access: Access) -> dict[str, Any]:
    if not access.has_sasl:
        return {}
    return {
        "sasl_mechanism": access.mechanism,
        "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
    }


def _java(access: Access) -> dict[str, Any]:
    config = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.protocol}
    if access.ca is not None:
        config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.ca}
    if access.certificate is not None:
        config |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": access.certificate}
    if access.has_sasl:
        password = (access.password or "").replace("\\", "\\\\").replace('"', '\\"')
        module = _LOGIN_MODULES[access.mechanism]
        config |= {
            "sasl.mechanism": access.mechanism,
            "sasl.jaas.config": f'{module} required username="{access.user}" password="{password}";',
        }
    return config


def _kafkajs(access: Access) -> dict[str, Any]:
    """As JSON: `ssl` has the contents of PEM files, as Node expects them."""
    config: dict[str, Any] = {"brokers": access.bootstrap_servers.split(",")}
    if access.ca is not None:
        config["ssl"] = {"ca": Path(access.ca).read_text()}
        if access.certificate is not None:
            own = Path(access.certificate).read_text()
            config["ssl"] |= {"key": own, "cert": own}
    if access.has_sasl:
        config["sasl"] = {
            "mechanism": access.mechanism.lower(),
            "username": access.user,
            "password": access.password,
        }
    return config


def _franz_go(access: Access) -> dict[str, Any]:
    """As JSON, for `kgo.SeedBrokers`, `kgo.DialTLSConfig` and `kgo.SASL`."""
    config: dict[str, Any] = {"seed_brokers": access.bootstrap_servers.split(",")}
    if access.ca is not None:
        config["tls"] = {"ca": access.ca}
        if access.certificate is not None:
            config["tls"] |= {"key": access.certificate, "cert": access.certificate}
    if access.has_sasl:
        config["sasl"] = {"mechanism": access.mechanism, "user": access.user, "pass": access.password}
    return config


_LIBRARIES: Final[Mapping[str, Callable[[Access], dict[str, Any]]]] = {
    "confluent-kafka": _confluent_kafka,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "java": _java,
    "kafkajs": _kafkajs,
    "franz-go": _franz_go,
    "klamm": _klamm,
}
LIBRARIES: Final = tuple(_LIBRARIES)
