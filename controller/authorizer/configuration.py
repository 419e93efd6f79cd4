"""The configs of the authorizer in server.properties: its class, the super users, and the default without entries.

The controller's values apply; they are read at start. Two of the configs are defined by StandardAuthorizer and are not
in the table of broker configs; Kafka's DescribeConfigs shows them like unknown configs.
"""

from collections.abc import Mapping
from typing import Final

from klamm.controller.authorizer.standard_authorizer import StandardAuthorizer

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER_CLASS: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
AUTHORIZERS_OWN_CONFIGS: Final = frozenset({SUPER_USERS, ALLOW_EVERYONE})
AUTHORIZER_CONFIGS: Final = AUTHORIZERS_OWN_CONFIGS | {AUTHORIZER_CLASS}
_BOOLEANS: Final = ("true", "false")


def authorizer_config_fault(name: str, value: str) -> str | None:
    """The error of a value of one of `AUTHORIZER_CONFIGS`, in one clause; None if the value is valid."""
    if name == AUTHORIZER_CLASS and value.strip() not in ("", STANDARD_AUTHORIZER):
        return f"the only authorizer there is, is {STANDARD_AUTHORIZER}; empty allows everything"
    if name == ALLOW_EVERYONE and value.strip().lower() not in _BOOLEANS:
        return f"must be {' or '.join(_BOOLEANS)}"
    if name == SUPER_USERS and not all(":" in principal for principal in _principals(value)):
        return "must be principals such as User:admin, separated by semicolons"
    return None


def configured_authorizer(configs: Mapping[str, str]) -> StandardAuthorizer | None:
    """The authorizer that valid static configs define; None: everything is allowed."""
    if not configs.get(AUTHORIZER_CLASS, "").strip():
        return None
    return StandardAuthorizer(
        super_users=_principals(configs.get(SUPER_USERS, "")),
        allow_if_no_acl=configs.get(ALLOW_EVERYONE, "").strip().lower() == "true",
    )


def _principals(text: str) -> frozenset[str]:
    return frozenset(principal for part in text.split(";") if (principal := part.strip()))
