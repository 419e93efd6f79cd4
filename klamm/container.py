"""The entry point of the container image: `klamm serve`, told what to do as Apache Kafka's own image is told.

    python -m klamm.container [OPTIONS]       klamm serve with what the variables say, and these options
    python -m klamm.container COMMAND …       any other command of klamm
    python -m klamm.container healthcheck     exit code 0 if broker 1 answers
    python -m klamm.container run [OPTIONS]   the first one, with a line of Kafka's log that Testcontainers waits for
    python -m klamm.container sh …            a shell, which is to call the one before when it has its variables

Variables that only a container has are read here, and what Apache Kafka's image adds to those of listeners is added;
all other `KAFKA_…` variables are broker configs, which `klamm.controller.settings` reads. What cannot be done as it is
asked for is one line and exit code 2: a cluster that is quietly another one than the file describes would cost its user
more. docs/docker.md has the list.
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
from klamm.server.addresses import Address, NamedAddress, decode_listener

LISTEN: Final = Address("0.0.0.0", 9092)
DATA_DIR: Final = "/var/lib/kafka/data"
MOUNTED_CONFIG: Final = Path("/mnt/shared/config/server.properties")
HEALTH_SECONDS: Final = 4.0
"""Less than the timeout of the image's HEALTHCHECK."""
OPTIONS: Final = "KLAMM_OPTIONS"
LISTENERS: Final = "KAFKA_LISTENERS"
ADVERTISED: Final = "KAFKA_ADVERTISED_LISTENERS"
PLAINTEXT: Final = "PLAINTEXT"
LISTENER_VARIABLES: Final = (
    "KAFKA_CONTROLLER_LISTENER_NAMES",
    "KAFKA_INTER_BROKER_LISTENER_NAME",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "KAFKA_SECURITY_INTER_BROKER_PROTOCOL",
)
SHELLS: Final = ("sh", "bash")
READY: Final = b"bootstrap.servers="
RUNNING: Final = b"Transitioning from RECOVERY to RUNNING\n"
"""What Apache Kafka's broker logs when it takes requests."""
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Size; API key, version, correlation id and no client id: the one request that every broker answers to everybody."""


class ContainerError(Exception):
    """What a variable asks for cannot be done in this container: one line for people."""


def main() -> int:
    """What the container runs; returns the exit code."""
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
    for variable in obeyed_variables(os.environ):
        del os.environ[variable]
    for variable in (LISTENERS, ADVERTISED):
        os.environ.pop(variable, None)
    os.environ.update(listeners)
    _be_first_process()
    return klamm_main(["serve", *arguments])


def serve_arguments(given: Sequence[str], environ: Mapping[str, str], mounted_config: Path) -> list[str]:
    """What follows `klamm serve`: what the variables say, then `KLAMM_OPTIONS`, then `given`. May raise ContainerError.

    What an option says and a variable says, too, `klamm serve` refuses as given twice; defaults give way to options.
    """
    _refuse_parts_of_clusters(environ)
    listeners = listener_variables(environ)
    try:
        options = [*shlex.split(environ.get(OPTIONS, "")), *given]
    except ValueError as error:
        raise ContainerError(f"{OPTIONS}: {error}") from None
    for option in ("--listen", "--listener"):
        if _gives(options, option):
            raise ContainerError(f"{option}: in a container {LISTENERS} says where brokers listen, to HEALTHCHECK, too")
    arguments = [] if listeners else ["--listen", str(LISTEN)]
    if cluster_id := environ.get("CLUSTER_ID"):
        arguments += ["--cluster-id", cluster_id]
    if not _gives(options, "--brokers"):
        arguments += ["--brokers", "1"]
    if not _gives(options, "--data-dir"):
        data_dir = Path(_data_dir(environ))
        _refuse_foreign(data_dir)
        arguments += ["--data-dir", str(data_dir)]
    if mounted_config.exists() and not _gives(options, "--config"):
        arguments += ["--config", str(mounted_config)]
    return [*arguments, *options]


def obeyed_variables(environ: Mapping[str, str]) -> list[str]:
    """Those that say what is so anyway, so that the server must not say that they have no effect."""
    return [name for name in ("KAFKA_NODE_ID", "KAFKA_BROKER_ID") if environ.get(name) == "1"]


def listener_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The two variables about listeners as `klamm serve` is to have them; none where its option says it all.

    As in Apache Kafka's image: without the first, the second tells the ports, too, on all interfaces. What they say is
    judged by `klamm serve`, as the configs that they are.
    """
    listening, advertised = _entries(LISTENERS, environ), _entries(ADVERTISED, environ)
    if not (listening or advertised):
        return {}
    controllers = {name.upper() for name in _names(environ.get("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER"))}
    if not listening:
        told = [one for one in advertised if one.name not in controllers]
        listening = [NamedAddress(one.name, replace(LISTEN, port=one.address.port), has_host=False) for one in told]
    if all(one.name in controllers for one in listening):
        listening.append(NamedAddress(PLAINTEXT, LISTEN, has_host=False))
    for one in listening:
        if not one.address.port:
            raise ContainerError(f"{LISTENERS}: {one}: NAME://HOST:PORT is expected, and port 0 could not be published")
    variables = {LISTENERS: ",".join(map(str, listening))}
    return variables | ({ADVERTISED: ",".join(map(str, advertised))} if advertised else {})


def main_address(environ: Mapping[str, str]) -> Address:
    """Where broker 1 listens to its clients: HEALTHCHECK asks there. May raise ContainerError."""
    variables = listener_variables(environ)
    if not variables:
        return LISTEN
    from klamm.cluster.listener_plan import plan_listeners
    from klamm.cluster.options import ClusterOptions
    from klamm.controller.settings import SettingsError, load_settings

    of_listeners = {name: environ[name] for name in LISTENER_VARIABLES if name in environ}
    try:
        settings, _ = load_settings(environ={**of_listeners, **variables})
        plan = plan_listeners(ClusterOptions(), settings, LISTEN)
    except SettingsError as error:
        raise ContainerError(str(error)) from None
    return next(one.bind for one in plan.brokers if one.name == plan.main)


def is_healthy(listening: Address) -> bool:
    """Whether the broker there answers ApiVersions, without an error, in time."""
    try:
        with socket.create_connection((listening.reachable_host, listening.port), HEALTH_SECONDS) as connection:
            connection.sendall(_API_VERSIONS)
            with connection.makefile("rb") as answer:
                return answer.read(10)[4:] == struct.pack(">ih", 1, 0)
    except OSError:
        return False


def _be_first_process() -> None:
    """What the first process of a container owes: it gets no signal that it has not asked for, and all orphans."""
    # Until the server takes over nothing is lost.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    if os.getpid() == 1:
        # The system itself clears away what others have left here, such as what a shell of `docker exec` had started.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _say_that_it_runs() -> None:
    """Have Kafka's line follow the ready line on stdout."""
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


def _refuse_foreign(folder: Path) -> None:
    """Whose a folder is that we may not write to. Of one that is not there, or read-only, `klamm serve` speaks."""
    try:
        owner = folder.stat().st_uid
        is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        return
    if not (is_read_only or os.access(folder, os.W_OK | os.X_OK)):
        raise ContainerError(f"{folder} belongs to user {owner}, and user {os.geteuid()} may not write to it")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _gives(options: Sequence[str], option: str) -> bool:
    return any(given == option or given.startswith(f"{option}=") for given in options)


if __name__ == "__main__":
    sys.exit(main())
