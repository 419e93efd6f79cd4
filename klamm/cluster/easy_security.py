"""The option `security` with `users`: a listener with TLS, SASL or both, with certificates and credentials that Klamm
makes. It becomes the configs that a server.properties would have.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from klamm.cluster.options import ClusterOptions
from klamm.cluster.throw_away_tls import ThrowAwayTls, new_throw_away_tls
from klamm.controller.core import Call, Controller
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_SCRAM
from klamm.controller.settings import SettingsError
from klamm.controller.transitions.scram import MIN_ITERATIONS, SCRAM_NAMES, credential_of, salted
from klamm.protocol.messages.security import alter_user_scram_credentials
from klamm.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from klamm.server.listeners import SecurityProtocol

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class EasySecurity:
    """What the options ask for."""

    protocol: SecurityProtocol
    users: Mapping[str, str] = field(repr=False)
    """The passwords by user."""
    tls: ThrowAwayTls | None

    @property
    def has_sasl(self) -> bool:
        return self.protocol is not SecurityProtocol.SSL

    def configs(self) -> dict[str, str]:
        """The configs of the listener."""
        prefix = f"listener.name.{self.protocol.name.lower()}."
        configs: dict[str, str] = {}
        if self.tls is not None:
            configs |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": self.tls.key,
                "ssl.keystore.certificate.chain": self.tls.chain,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self.tls.ca,
                "ssl.client.auth": "requested",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            }
        if self.has_sasl:
            configs["sasl.enabled.mechanisms"] = ",".join(("PLAIN", *SCRAM_NAMES))
            users = " ".join(f"{_quoted(f'user_{user}')}={_quoted(word)}" for user, word in self.users.items())
            configs["plain.sasl.jaas.config"] = f"{_PLAIN} required {users};"
            configs |= {f"{name.lower()}.sasl.jaas.config": f"{_SCRAM} required;" for name in SCRAM_NAMES}
        return {prefix + name: value for name, value in configs.items()}

    def add_credentials(self, controller: Controller) -> None:
        """Make the SCRAM credentials of the users, unless the metadata log has them already, or cannot have them (below
        metadata.version 3.5-IV2). Raises LogError."""
        if controller.image.features.metadata_version < FIRST_LEVEL_WITH_SCRAM:
            return
        changes = []
        for user, password in self.users.items() if self.has_sasl else ():
            # The salt follows from the cluster and the user, so that the same options give the same log.
            for number in SCRAM_NAMES.values():
                salt = f"{controller.identity.cluster_id} {user}".encode()[:64]
                secret = salted(number, password.encode(), salt, MIN_ITERATIONS)
                made = credential_of(number, secret, salt, MIN_ITERATIONS)
                if controller.image.scram_credentials.get((user, number)) != made:
                    changes.append((number, ScramCredentialUpsertion(
                        name=user, mechanism=number, iterations=MIN_ITERATIONS, salt=salt, salted_password=secret
                    )))  # fmt: skip
        for number in SCRAM_NAMES.values():  # a request names each user once
            some = [change for mechanism, change in changes if mechanism == number]
            if some:
                request = AlterUserScramCredentialsRequest(upsertions=some)
                controller.submit(Call(alter_user_scram_credentials.API, 0, request))

    @contextmanager
    def files(self) -> Iterator[Path | None]:
        """The directory with the files for clients; None: there are none."""
        if self.tls is None:
            yield None
            return
        with self.tls.files() as directory:
            yield directory


def easy_security(options: ClusterOptions) -> EasySecurity | None:
    """What the options ask for; None: nothing. Raises SettingsError."""
    users = dict(options.users)
    if options.security is None and not users:
        return None
    protocol = SecurityProtocol[(options.security or "sasl_plaintext").upper()]
    if options.listeners:
        raise SettingsError("security and users are for one listener: give its address as listen, not as listeners")
    if not users and protocol is not SecurityProtocol.SSL:
        raise SettingsError(f"security {options.security} needs users, because clients log in with them")
    tls = None
    if protocol is not SecurityProtocol.SASL_PLAINTEXT:
        hosts = [one.host for one in (options.listen, options.advertise) if one is not None and not one.is_wildcard]
        tls = new_throw_away_tls(hosts, users)
    return EasySecurity(protocol, users, tls)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
