"""`klamm broker-properties`: the server.properties of a broker of Apache Kafka that joins Klamm (docs/real-brokers.md).

Kafka reads the file as java.util.Properties in Latin-1, takes blanks from both ends of values, and splits log.dirs at
commas.
"""

import argparse
from collections.abc import Sequence
from typing import Final

from klamm.cluster.options import MAX_BROKER_ID, checked_cluster_id, checked_racks
from klamm.console.options import CommandParser, Once, UsageError, argument_of, whole_number
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.server.addresses import Address, decode_advertised, decode_listen

DEFAULT_CONTROLLER: Final = Address("127.0.0.1", 9093)
DEFAULT_LISTEN: Final = Address("127.0.0.1", 9092)
_HEAD: Final = """\
# An Apache Kafka broker whose controller is Klamm. Save as server.properties; before the first start of the broker:
# bin/kafka-storage.sh format --cluster-id {} --config server.properties
"""
_FIRST_PRINTABLE, _LAST_PRINTABLE = 0x20, 0x7E


def broker_properties_parser() -> CommandParser:
    """The options of `klamm broker-properties`."""
    parser = CommandParser(
        prog="klamm broker-properties",
        description="Print the server.properties of a broker of Apache Kafka 4.3 that joins Klamm. Start Klamm with "
        "--brokers 0, --controller-listener and --data-dir.",
        example="klamm broker-properties --id 1 --rack a --cluster-id CLUSTER --log-dir /tmp/b1",
    )
    add = parser.add_argument
    add("--id", metavar="N", type=_broker_id, action=Once, required=True, help="the broker's id")
    add("--rack", metavar="NAME", type=_rack, action=Once, help="the broker's rack (default: none)")
    add("--controller", metavar="HOST:PORT", type=_address, action=Once,
        help=f"the --controller-listener of Klamm (default: {DEFAULT_CONTROLLER})")  # fmt: skip
    add("--cluster-id", metavar="ID", type=argument_of(checked_cluster_id), action=Once, required=True,
        help="the cluster id that klamm serve prints. A comment in the output has the command that formats the log "
            "directory")  # fmt: skip
    add("--listen", metavar="HOST:PORT", type=_address, action=Once,
        help=f"the address on which the broker listens (default: {DEFAULT_LISTEN})")  # fmt: skip
    add("--advertise", metavar="HOST[:PORT]", type=argument_of(decode_advertised), action=Once,
        help="the address for clients and other brokers (default: that of --listen)")  # fmt: skip
    add("--dynamic-quorum", action="store_true",
        help="controller.quorum.bootstrap.servers instead of voters, for klamm serve --dynamic-quorum")  # fmt: skip
    add("--log-dir", metavar="DIR", type=_log_dir, action=Once, required=True, help="the broker's log directory")
    return parser


def broker_properties_text(arguments: Sequence[str]) -> str:
    """The output of `klamm broker-properties`. Raises UsageError."""
    given = broker_properties_parser().parse_args(arguments)
    listen: Address = given.listen or DEFAULT_LISTEN
    controller: Address = given.controller or DEFAULT_CONTROLLER
    if controller.is_wildcard:
        raise UsageError(f"brokers cannot connect to {controller}")
    advertised = _advertised_address(listen, given.advertise)
    properties = {
        "process.roles": "broker",
        "node.id": str(given.id),
        "broker.rack": given.rack,
        **_quorum(controller, is_dynamic=given.dynamic_quorum),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": f"PLAINTEXT://{listen}",
        "advertised.listeners": f"PLAINTEXT://{advertised}",
        "log.dirs": given.log_dir,
    }
    lines = (f"{name}={_escaped(value)}\n" for name, value in properties.items() if value is not None)
    return _HEAD.format(given.cluster_id) + "".join(lines)


def _quorum(controller: Address, *, is_dynamic: bool) -> dict[str, str]:
    """The config by which the broker finds the controller."""
    if is_dynamic:
        return {"controller.quorum.bootstrap.servers": str(controller)}
    return {"controller.quorum.voters": f"{CONTROLLER_ID}@{controller}"}


def _advertised_address(listen: Address, advertise: Address | None) -> Address:
    if advertise is None and listen.is_wildcard:
        raise UsageError(f"clients cannot connect to {listen}: --advertise HOST is needed, too")
    if advertise is None:
        return listen
    if advertise.is_wildcard:
        raise UsageError(f"clients cannot connect to {advertise}")
    return Address(advertise.host, advertise.port or listen.port)


def _escaped(value: str) -> str:
    """The value as java.util.Properties reads it: other characters than those of ASCII as UTF-16."""
    return "".join(
        "\\\\" if unit == ord("\\") else chr(unit) if _FIRST_PRINTABLE <= unit <= _LAST_PRINTABLE else f"\\u{unit:04x}"
        for unit in memoryview(value.encode("utf-16-le", "surrogatepass")).cast("H")
    )


def _broker_id(text: str) -> int:
    broker_id = whole_number(text, 0, MAX_BROKER_ID)
    if broker_id == CONTROLLER_ID:
        raise argparse.ArgumentTypeError(f"{CONTROLLER_ID} is the id of Klamm's controller")
    return broker_id


def _rack(text: str) -> str:
    try:
        return checked_racks((text,))[0]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _address(text: str) -> Address:
    try:
        address = decode_listen(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not address.port:
        raise argparse.ArgumentTypeError(f"{text!r}: a port other than 0 is needed")
    return address


def _log_dir(text: str) -> str:
    if not text or text != text.strip() or "," in text or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{text!r}: a path without commas, control characters and blanks around it is expected"
        )
    return text
