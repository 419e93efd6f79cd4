"""The entry point of the container image: runs `klamm serve` with the environment variables of Apache Kafka's image.

    python -m klamm.container [OPTIONS]       klamm serve, with options from the variables and these options
    python -m klamm.container COMMAND …       any other command of klamm
    python -m klamm.container healthcheck     exit code 0 if the first broker answers, or without brokers the controller
    python -m klamm.container run [OPTIONS]   as the first form, and prints a line of Kafka's log for Testcontainers
    python -m klamm.container sh …            a shell, from which Testcontainers calls `run` after it sets variables

This module reads the variables that only a container has, and completes those of listeners as Apache Kafka's image
does. All other `KAFKA_…` variables are broker configs, which `klamm.controller.settings` reads. A variable that cannot
be obeyed is an error (one line on stderr, exit code 2), because a cluster that silently differs from its compose file
would cost the user more time. docs/docker.md has the list.
"""

import os
import shlex
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Final

from klamm.__main__ import EXIT_REFUSED
from klamm.__main__ import main as klamm_main
from klamm.cluster.options import MAX_BROKER_ID
from klamm.server.addresses import Address, NamedAddress, decode_listen, decode_listener

LISTEN: Final = Address("0.0.0.0", 9092)
DATA_DIR: Final = "/var/lib/kafka/data"
MOUNTED_CONFIG: Final = Path("/mnt/shared/config/server.properties")
HEALTH_SECONDS: Final = 4.0
"""Less than the timeout of the image's HEALTHCHECK."""
OPTIONS: Final = "KLAMM_OPTIONS"
LISTENERS: Final = "KAFKA_LISTENERS"
ADVERTISED: Final = "KAFKA_ADVERTISED_LISTENERS"
PLAINTEXT: Final = "PLAINTEXT"
ID_VARIABLES: Final = ("KAFKA_NODE_ID", "KAFKA_BROKER_ID")
"""The first one that is set has the broker's id."""
QUORUM_VARIABLES = ("KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS")
LISTENER_VARIABLES: Final = (
    "KAFKA_CONTROLLER_LISTENER_NAMES",
    "KAFKA_INTER_BROKER_LISTENER_NAME",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "KAFKA_SECURITY_INTER_BROKER_PROTOCOL",
)
SHELLS: Final = ("sh", "bash")
READY: Final = b"bootstrap.servers="
RUNNING: Final = b"Transitioning from RECOVERY to RUNNING\n"
"""The line that Apache Kafka's broker logs when it accepts requests."""
MOST_DIGITS: Final = 20
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""An ApiVersions v0 request: size, API key, version, correlation id, no client id. Every broker answers it without
authorization."""


class ContainerError(Exception):
    """A variable or an option cannot be obeyed in a container. The text is one line for users."""


def main() -> int:
    """Run the container's command; returns the exit code."""
    given = sys.argv[1:]
    try:
        if given == ["healthcheck"]:
            return 0 if is_healthy(main_address(os.environ)) else 1
        if given[:1] == ["run"]:
            given[0] = "serve"
            _say_that_it_runs()
        if given and given[0] in SHELLS:
            os.execvp(given[0], given)
        if given and not given[0].startswith("-") and given[0] != "serve":
            return klamm_main(given)
        arguments = serve_arguments(given[given[:1] == ["serve"] :], os.environ, MOUNTED_CONFIG)
        listeners = listener_variables(os.environ)
    except ContainerError as error:
        _tell(str(error))
        return EXIT_REFUSED
    for variable in obeyed_variables(os.environ, arguments):
        del os.environ[variable]
    for variable in (LISTENERS, ADVERTISED):
        os.environ.pop(variable, None)
    os.environ.update(listeners)
    _be_first_process()
    return klamm_main(["serve", *arguments])


def serve_arguments(given: Sequence[str], environ: Mapping[str, str], mounted_config: Path) -> list[str]:
    """The arguments of `klamm serve`: those from variables, then `KLAMM_OPTIONS`, then `given`. Raises ContainerError.

    `klamm serve` refuses a value that is given both as a variable and as an option. Options replace the defaults.
    """
    _refuse_parts_of_clusters(environ)
    listeners = listener_variables(environ)
    try:
        options = [*shlex.split(environ.get(OPTIONS, "")), *given]
    except ValueError as error:
        raise ContainerError(f"{OPTIONS}: {error}") from None
    for option in ("--listen", "--listener"):
        if _gives(options, option):
            raise ContainerError(f"{option}: use {LISTENERS} in a container, because HEALTHCHECK reads it, too")
    arguments = ["--env"] if listeners else ["--env", "--listen", str(LISTEN)]
    if cluster_id := environ.get("CLUSTER_ID"):
        arguments += ["--cluster-id", cluster_id]
    if not (_gives(options, "--brokers") or _gives(options, "--broker-ids")):
        arguments += ["--broker-ids", str(broker_id(environ))]
    if not _gives(options, "--data-dir"):
        data_dir = Path(_data_dir(environ))
        _refuse_foreign(data_dir)
        arguments += ["--data-dir", str(data_dir)]
    if mounted_config.exists() and not _gives(options, "--config"):
        arguments += ["--config", str(mounted_config)]
    return [*arguments, *options]


def broker_id(environ: Mapping[str, str]) -> int:
    """The id of the one broker of a container without `--brokers` and `--broker-ids`. Raises ContainerError."""
    for variable in ID_VARIABLES:
        text = environ.get(variable, "").strip()
        if text in ("", "-1"):  # -1 is Kafka's default: no id is chosen
            continue
        if not (text.isascii() and text.isdecimal() and len(text) < MOST_DIGITS and int(text) <= MAX_BROKER_ID):
            raise ContainerError(f"{variable}={text[:40]!r}: a whole number from 0 to {MAX_BROKER_ID} is expected")
        return int(text)
    return 1


def obeyed_variables(environ: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """Variables that have the values that Klamm uses with these arguments of `klamm serve`. They are removed, so that
    the server does not warn that they have no effect."""
    chosen = arguments[arguments.index("--broker-ids") + 1] if "--broker-ids" in arguments else "1"
    ids = [name for name in ID_VARIABLES if environ.get(name, "").strip() == chosen]
    return [*ids, *(name for name in QUORUM_VARIABLES if name in environ)]  # one node, as was checked


def listener_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """KAFKA_LISTENERS and KAFKA_ADVERTISED_LISTENERS as `klamm serve` gets them; empty if neither is set.

    As in Apache Kafka's image, without the first the brokers listen on the ports of the second, on all interfaces.
    `klamm serve` validates the values.
    """
    listening, advertised = _entries(LISTENERS, environ), _entries(ADVERTISED, environ)
    if not (listening or advertised):
        return {}
    controllers = {name.upper() for name in _names(environ.get("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER"))}
    if not listening:
        of_brokers = [one for one in advertised if one.name not in controllers]
        listening = [
            NamedAddress(one.name, replace(LISTEN, port=one.address.port), has_host=False) for one in of_brokers
        ]
    if all(one.name in controllers for one in listening):
        listening.append(NamedAddress(PLAINTEXT, LISTEN, has_host=False))
    for one in listening:
        if not one.address.port:
            raise ContainerError(f"{LISTENERS}: {one}: NAME://HOST:PORT is expected, and port 0 cannot be published")
    variables = {LISTENERS: ",".join(map(str, listening))}
    return variables | ({ADVERTISED: ",".join(map(str, advertised))} if advertised else {})


def main_address(environ: Mapping[str, str]) -> Address:
    """The address that HEALTHCHECK connects to: the first broker's first client listener, or without simulated brokers
    that of the controller. Raises ContainerError."""
    if controller := _controller_of_real_brokers(environ):
        return controller
    variables = listener_variables(environ)
    if not variables:
        return LISTEN
    from klamm.cluster.listener_plan import plan_listeners
    from klamm.cluster.options import ClusterOptions
    from klamm.cluster.plan import FIRST_BROKER_IDS
    from klamm.controller.settings import SettingsError, load_settings

    of_listeners = {name: environ[name] for name in LISTENER_VARIABLES if name in environ}
    try:
        settings, _ = load_settings(environ={**of_listeners, **variables})
        plan = plan_listeners(ClusterOptions(), settings, LISTEN, FIRST_BROKER_IDS)
    except SettingsError as error:
        raise ContainerError(str(error)) from None
    return next(one.bind for one in plan.brokers if one.name == plan.main)


def _controller_of_real_brokers(environ: Mapping[str, str]) -> Address | None:
    """The controller's listener if the options have no simulated broker."""
    with suppress(ValueError):  # the server refuses such options
        options = shlex.split(environ.get(OPTIONS, ""))
        listener = _value(options, "--controller-listener")
        if _value(options, "--brokers") == "0" and listener is not None:
            return decode_listen(listener)
    return None


def is_healthy(listening: Address) -> bool:
    """Whether the broker answers ApiVersions without an error within HEALTH_SECONDS."""
    try:
        with socket.create_connection((listening.reachable_host, listening.port), HEALTH_SECONDS) as connection:
            connection.sendall(_API_VERSIONS)
            with connection.makefile("rb") as answer:
                return answer.read(10)[4:] == struct.pack(">ih", 1, 0)
    except OSError:
        return False


def _be_first_process() -> None:
    """Do the duties of process 1: it gets only signals that it has a handler for, and it is the parent of orphans."""
    # Until the server sets its own handlers, there is no state to save.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    if os.getpid() == 1:
        # With SIG_IGN the kernel reaps orphans, such as children of a shell of `docker exec`.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _say_that_it_runs() -> None:
    """Print Kafka's line after the ready line on stdout."""
    descriptor, ready_lines = os.pipe()
    stdout = os.dup(1)
    os.dup2(ready_lines, 1)
    os.close(ready_lines)

    def pass_on() -> None:
        with suppress(OSError), os.fdopen(descriptor, "rb") as lines, os.fdopen(stdout, "wb", buffering=0) as passed_on:
            passed_on.writelines(line + RUNNING if line.startswith(READY) else line for line in lines)

    Thread(target=pass_on, daemon=True).start()


def _tell(line: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"klamm container: {line}\n")


def _entries(variable: str, environ: Mapping[str, str]) -> list[NamedAddress]:
    entries = []
    for entry in _names(environ.get(variable, "")):
        try:
            entries.append(decode_listener(entry))
        except ValueError as error:
            raise ContainerError(f"{variable}: {error}") from None
    return entries


def _refuse_parts_of_clusters(environ: Mapping[str, str]) -> None:
    """Refuse variables for a node of a multi-node cluster: each container would be a cluster of its own."""
    advice = f"a container is a whole cluster; {OPTIONS}='--brokers 3' gives it more brokers"
    roles = _names(environ.get("KAFKA_PROCESS_ROLES", ""))
    if roles and set(roles) != {"broker", "controller"}:
        raise ContainerError(f"KAFKA_PROCESS_ROLES={','.join(roles)}: {advice}")
    for variable in QUORUM_VARIABLES:
        if len(voters := _names(environ.get(variable, ""))) > 1:
            raise ContainerError(f"{variable} names {len(voters)} controllers: {advice}")


def _data_dir(environ: Mapping[str, str]) -> str:
    """Apache Kafka's directory of metadata according to the variables; by default the image's volume."""
    for variable in ("KAFKA_METADATA_LOG_DIR", "KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"):
        if folders := _names(environ.get(variable, "")):
            return folders[0]
    return DATA_DIR


def _refuse_foreign(folder: Path) -> None:
    """Raise ContainerError, with the owner, if this user may not write to the folder. `klamm serve` itself reports a
    folder that does not exist or is read-only."""
    try:
        owner = folder.stat().st_uid
        is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        return
    if not (is_read_only or os.access(folder, os.W_OK | os.X_OK)):
        raise ContainerError(f"{folder} belongs to user {owner}, and user {os.geteuid()} may not write to it")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _value(options: Sequence[str], option: str) -> str | None:
    """The value of an option, `--option VALUE` or `--option=VALUE`."""
    for given, following in zip(options, [*options[1:], ""], strict=True):
        if given == option:
            return following
        if given.startswith(f"{option}="):
            return given.partition("=")[2]
    return None


def _gives(options: Sequence[str], option: str) -> bool:
    return any(given == option or given.startswith(f"{option}=") for given in options)


if __name__ == "__main__":
    sys.exit(main())
