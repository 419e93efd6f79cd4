"""The entry point of the container image: `klamm serve`, told what to do as Apache Kafka's own image is told.

    python -m klamm.container [OPTIONS]       klamm serve with what the variables say, and these options
    python -m klamm.container COMMAND …       any other command of klamm
    python -m klamm.container healthcheck     exit code 0 if broker 1 answers

Variables that only a container has are read here; all other `KAFKA_…` variables are broker configs, which
`controller.settings` reads. What cannot be done as it is asked for is one line and exit code 2: a cluster that is
quietly another one than the file describes would cost its user more. docs/docker.md has the list.
"""

import os
import shlex
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from controller.server.addresses import Address, decode_address
from klamm.__main__ import EXIT_REFUSED
from klamm.__main__ import main as klamm_main

LISTEN: Final = Address("0.0.0.0", 9092)
DATA_DIR: Final = "/var/lib/kafka/data"
MOUNTED_CONFIG: Final = Path("/mnt/shared/config/server.properties")
HEALTH_SECONDS: Final = 4.0
"""Less than the timeout of the image's HEALTHCHECK."""
OPTIONS: Final = "KLAMM_OPTIONS"
LISTENERS: Final = "KAFKA_LISTENERS"
ADVERTISED: Final = "KAFKA_ADVERTISED_LISTENERS"
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Size; API key, version, correlation id and no client id: the one request that every broker answers to everybody."""


class ContainerError(Exception):
    """What a variable asks for cannot be done in this container: one line for people."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where the variables have the cluster listen, and what clients are told (None: the default of `klamm serve`)."""

    brokers: Address = LISTEN
    controller: Address | None = None
    advertised: Address | None = None


def main() -> int:
    """What the container runs; returns the exit code."""
    given = sys.argv[1:]
    try:
        if given == ["healthcheck"]:
            return 0 if is_healthy(decode_listeners(os.environ).brokers) else 1
        if given and not given[0].startswith("-") and given[0] != "serve":
            return klamm_main(given)
        arguments = serve_arguments(given[given[:1] == ["serve"] :], os.environ, MOUNTED_CONFIG)
    except ContainerError as error:
        with suppress(OSError):
            sys.stderr.write(f"klamm container: {error}\n")
        return EXIT_REFUSED
    for variable in obeyed_variables(os.environ):
        del os.environ[variable]
    # The first process of a container gets no signal that it has not asked for: until the server does, nothing is lost.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    return klamm_main(["serve", *arguments])


def serve_arguments(given: Sequence[str], environ: Mapping[str, str], mounted_config: Path) -> list[str]:
    """What follows `klamm serve`: what the variables say, then `KLAMM_OPTIONS`, then `given`. May raise ContainerError.

    What an option says and a variable says, too, `klamm serve` refuses as given twice; defaults give way to options.
    """
    _refuse_parts_of_clusters(environ)
    listeners = decode_listeners(environ)
    try:
        options = [*shlex.split(environ.get(OPTIONS, "")), *given]
    except ValueError as error:
        raise ContainerError(f"{OPTIONS}: {error}") from None
    if _gives(options, "--listen"):
        raise ContainerError(f"--listen: in a container {LISTENERS} says where brokers listen, to HEALTHCHECK, too")
    arguments = ["--listen", str(listeners.brokers)]
    if listeners.controller is not None:
        arguments += ["--controller-listener", str(listeners.controller)]
    if listeners.advertised is not None:
        arguments += ["--advertise", str(listeners.advertised)]
    if cluster_id := environ.get("CLUSTER_ID"):
        arguments += ["--cluster-id", cluster_id]
    if not _gives(options, "--brokers"):
        arguments += ["--brokers", "1"]
    if not _gives(options, "--data-dir"):
        arguments += ["--data-dir", _data_dir(environ)]
    if mounted_config.exists() and not _gives(options, "--config"):
        arguments += ["--config", str(mounted_config)]
    return [*arguments, *options]


def obeyed_variables(environ: Mapping[str, str]) -> list[str]:
    """Those that are obeyed here, so that the server must not say that they have no effect."""
    single = [name for name in ("KAFKA_NODE_ID", "KAFKA_BROKER_ID") if environ.get(name) == "1"]
    return [name for name in (LISTENERS, ADVERTISED) if name in environ] + single


def decode_listeners(environ: Mapping[str, str]) -> Listeners:
    """What the two variables say, each about one listener of clients and at most one of the controller.

    As in Apache Kafka's image: without the first, the second tells the port, too, on all interfaces.
    """
    listening, controller = _listeners(LISTENERS, environ, LISTEN.host)
    advertised, _ = _listeners(ADVERTISED, environ, "")
    if advertised is not None and advertised.is_wildcard:
        raise ContainerError(f"{ADVERTISED}: {advertised.host} is no host that clients can connect to")
    if listening is None:
        listening = replace(LISTEN, port=advertised.port) if advertised else LISTEN
    return Listeners(listening, controller, advertised)


def is_healthy(listening: Address) -> bool:
    """Whether the broker there answers ApiVersions, without an error, in time."""
    try:
        with socket.create_connection((listening.reachable_host, listening.port), HEALTH_SECONDS) as connection:
            connection.sendall(_API_VERSIONS)
            with connection.makefile("rb") as answer:
                return answer.read(10)[4:] == struct.pack(">ih", 1, 0)
    except OSError:
        return False


def _listeners(variable: str, environ: Mapping[str, str], default_host: str) -> tuple[Address | None, Address | None]:
    """The clients' listener and the controller's, where they are named."""
    clients: dict[str, Address] = {}
    controllers: dict[str, Address] = {}
    for entry in _names(environ.get(variable, "")):
        name, separator, place = entry.partition("://")
        try:
            address = decode_address(f"{default_host}{place}" if place.startswith(":") else place)
        except ValueError as error:
            raise ContainerError(f"{variable}: {entry!r}: {error}") from None
        if not (separator and name and address.port):
            raise ContainerError(f"{variable}: {entry!r}: NAME://HOST:PORT is expected")
        is_controllers = name.upper() in _names(environ.get("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER").upper())
        (controllers if is_controllers else clients)[name.upper()] = address
    for what, of in (("clients", clients), ("the controller", controllers)):
        if len(of) > 1:
            raise ContainerError(f"{variable}: there is one listener for {what}, not {len(of)}: {', '.join(of)}")
    for name in (*clients, *controllers):
        _refuse_secured(variable, name, environ)
    return next(iter(clients.values()), None), next(iter(controllers.values()), None)


def _refuse_secured(variable: str, name: str, environ: Mapping[str, str]) -> None:
    protocols = dict(
        entry.upper().partition(":")[::2] for entry in _names(environ.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", ""))
    )
    protocol = protocols.get(name, name if name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL") else "PLAINTEXT")
    if protocol != "PLAINTEXT":
        raise ContainerError(f"{variable}: {name} is {protocol}, and PLAINTEXT is all that is served")


def _refuse_parts_of_clusters(environ: Mapping[str, str]) -> None:
    """A container is a whole cluster; several that should become one would be as many clusters."""
    advice = f"a container is a whole cluster; {OPTIONS}='--brokers 3' gives it more brokers"
    roles = _names(environ.get("KAFKA_PROCESS_ROLES", ""))
    if roles and set(roles) != {"broker", "controller"}:
        raise ContainerError(f"KAFKA_PROCESS_ROLES={','.join(roles)}: {advice}")
    for variable in ("KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS"):
        if len(voters := _names(environ.get(variable, ""))) > 1:
            raise ContainerError(f"{variable} names {len(voters)} controllers: {advice}")


def _data_dir(environ: Mapping[str, str]) -> str:
    """Where Apache Kafka would keep its metadata; if nothing is said, in the image's volume."""
    for variable in ("KAFKA_METADATA_LOG_DIR", "KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"):
        if folders := _names(environ.get(variable, "")):
            return folders[0]
    return DATA_DIR


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _gives(options: Sequence[str], option: str) -> bool:
    return any(given == option or given.startswith(f"{option}=") for given in options)


if __name__ == "__main__":
    sys.exit(main())
