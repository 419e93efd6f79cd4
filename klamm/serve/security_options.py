"""The options of `klamm serve` about TLS, SASL and users."""

import argparse
from pathlib import Path
from typing import Literal

from klamm.cluster.security_options import SECURITY_PROTOCOLS, decode_add_scram, decode_user
from klamm.console.options import Once, argument_of, file_path


def control_tls(text: str) -> Path | Literal["auto"]:
    """Decode the value of --control-tls."""
    return "auto" if text == "auto" else file_path(text)


def add_security(group: argparse._ArgumentGroup) -> None:
    """Add the options of the group "security"."""
    add = group.add_argument
    add(
        "--security",
        choices=SECURITY_PROTOCOLS,
        metavar="PROTOCOL",
        action=Once,
        help=f"{', '.join(SECURITY_PROTOCOLS)} (default: none)",
    )
    add(
        "--user",
        metavar="NAME:PASSWORD",
        dest="users",
        type=argument_of(decode_user),
        action="append",
        default=[],
        help="a user, can be repeated (default: none)",
    )
    add(
        "--add-scram",
        metavar="ARG",
        type=argument_of(decode_add_scram),
        action="append",
        default=[],
        help="as for kafka-storage, can be repeated (default: none)",
    )
    add(
        "--tls",
        choices=("auto",),
        action=Once,
        help="TLS with certificates that Klamm makes (default: none)",
    )
