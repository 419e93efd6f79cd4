"""`klamm serve`: runs a cluster in the foreground until SIGTERM or SIGINT.

Only the ready lines are written to stdout. Exit codes: 0 after a signal (with --stop-with-stdin also after the end of
stdin), 2 if the cluster cannot start, 1 if the log of a running cluster fails; for 1 and 2 one line on stderr has the
reason. The control interface, and with it starlette and hypercorn, is imported only for --control.
"""

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import trio

from klamm.cluster.assembly import FATAL_ERRORS, START_ERRORS, open_cluster
from klamm.cluster.plan import ClusterPlan, plan_cluster
from klamm.controller.settings import SettingsError
from klamm.serve.options import DEFAULT_LISTEN, ServeOptions
from klamm.server.addresses import Address
from klamm.server.admission import raise_open_files_limit
from klamm.server.event_log import EventLog
from klamm.server.listener import PortTaken
from klamm.server.listeners import refuse_impossible_ports
from klamm.server.server import Server

if TYPE_CHECKING:
    from klamm.control.serving import ControlPort
    from klamm.control.tls import ControlTls
    from klamm.serve.forks import Forks

EXIT_FAILED, EXIT_REFUSED = 1, 2
STDIN, STDOUT, STDERR = 0, 1, 2
READ_BYTES = 4096


def serve_command(options: ServeOptions) -> int:
    """Run `klamm serve` with these options; returns the exit code."""
    ready_lines = _stdout_for_ready_lines()
    events = EventLog(options.log_format)
    try:
        plan = plan_cluster(options, os.environ if options.env else {}, DEFAULT_LISTEN)
        tls = _control_tls(options, plan)
    except SettingsError as error:
        return _tell(error, EXIT_REFUSED)
    raise_open_files_limit()
    return trio.run(_serve, plan, options, tls, ready_lines, events)


def _control_tls(options: ServeOptions, plan: ClusterPlan) -> "ControlTls | None":
    """The TLS settings of the control interface; None: plain HTTP. Raises SettingsError."""
    if options.control_tls is None or options.control is None:
        return None
    from klamm.control.tls import control_tls

    hosts = [] if options.control.is_wildcard else [options.control.host]
    if plan.listeners.advertised_host is not None:
        hosts.append(plan.listeners.advertised_host)
    return control_tls(options.control_tls, hosts)


def _stdout_for_ready_lines() -> int:
    """A file descriptor of stdout that is used for the ready lines only.

    All other output to stdout, such as that of a create-topic policy, goes to stderr from now on: it must not be
    mistaken for a ready line, and must not block when no process reads stdout.
    """
    try:
        ready_lines = os.dup(STDOUT)
    except OSError:  # stdout is closed; a file that the server opens later must not get its descriptor
        return os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # stderr is closed
        os.dup2(STDERR, STDOUT)
    sys.stdout = sys.stderr  # stderr is flushed at each line; stdout would hold up to 8 KiB
    return ready_lines


async def _serve(
    plan: ClusterPlan, options: ServeOptions, tls: "ControlTls | None", ready_lines: int, events: EventLog
) -> int:
    ready = trio.Event()
    failure: BaseException | None = None
    try:
        await _serve_until_stopped(plan, options, tls, ready_lines, events, ready)
    except* (*START_ERRORS, *FATAL_ERRORS) as failures:
        failure = _first(failures)
    return 0 if failure is None else _tell(failure, EXIT_FAILED if ready.is_set() else EXIT_REFUSED)


async def _serve_until_stopped(
    plan: ClusterPlan,
    options: ServeOptions,
    tls: "ControlTls | None",
    ready_lines: int,
    events: EventLog,
    ready: trio.Event,
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_signal, signals, nursery.cancel_scope)
            if options.stop_with_stdin:
                nursery.start_soon(_cancel_with_stdin, nursery.cancel_scope)
            forks = await _forks(plan, options, events, nursery)
            with ExitStack() as undo:
                port, token = _control_port(plan, options, undo)
                while True:
                    async with _open_with_control(plan, port, token, tls, events, forks) as (server, control):
                        _collect_garbage_less()
                        ready.set()
                        _announce(server, control, ready_lines, events)
                        if forks is None:
                            await trio.sleep_forever()
                        else:
                            await forks.next_wanted()
                    gc.unfreeze()  # what the last fork was made of is garbage now
                    gc.collect()


async def _forks(plan: ClusterPlan, options: ServeOptions, events: EventLog, nursery: trio.Nursery) -> "Forks | None":
    if not options.follow or plan.twin is None:
        return None
    from klamm.serve.forks import Forks

    forks = Forks(plan.twin, events)
    await nursery.start(forks.ask_on_signals)
    return forks


def _collect_garbage_less() -> None:
    # Objects made until now live as long as the process: exclude them from garbage collection.
    gc.freeze()
    gc.enable()  # off since the imports began
    # Larger than the number of objects of a large answer, so that fewer answers are interrupted by a
    # collection: the p99.9 latency falls to a sixth.
    gc.set_threshold(50_000, 20, 100)


def _control_port(plan: ClusterPlan, options: ServeOptions, undo: ExitStack) -> "tuple[ControlPort | None, str | None]":
    """The port of the control interface and its token, which are the same for each fork of a twin. Raises PortTaken."""
    control = options.control
    if control is None:
        return None, None
    from klamm.control.serving import ControlPort

    refuse_impossible_ports(plan.listeners, plan.broker_ids, [(control, "the control interface")])
    # The port comes first, because a taken port is the most frequent error and nothing has to be undone then.
    port = undo.enter_context(closing(ControlPort(control)))
    return port, _control_token(control, options.control_token)


@asynccontextmanager
async def _open_with_control(
    plan: ClusterPlan,
    port: "ControlPort | None",
    token: str | None,
    tls: "ControlTls | None",
    events: EventLog,
    forks: "Forks | None",
) -> AsyncIterator[tuple[Server, str]]:
    """The running server, and the ready lines of its control interface (empty without one)."""
    if port is None:
        async with open_cluster(plan, events, large_in_threads=True) as server:
            yield server, ""
        return
    from klamm.control.serving import kept_files, open_control

    if not port.is_open:  # the fork before has closed it
        port.open()
    plan = replace(plan, kept_files=kept_files(), keeps_requests=True, counts_requests=True)
    context = None if tls is None else tls.context
    async with (
        open_cluster(plan, events, large_in_threads=True) as server,
        open_control(port, server, events, token, context, forks),
    ):
        with nullcontext() if tls is None else tls.ca_file() as ca_file:
            authority = "" if ca_file is None else f"control.ca={ca_file}\n"
            url = port.url(plan.listeners.advertised_host, has_tls=tls is not None)
            yield server, f"{authority}control={url}\n"


def _control_token(control: Address, given: Path | Literal[True] | None) -> str | None:
    """The token that clients of the control interface need; None: none. A new one is printed, once."""
    from klamm.control.app import is_loopback
    from klamm.control.tokens import new_token, read_token

    if isinstance(given, Path):
        try:
            return read_token(given)
        except ValueError as error:
            raise PortTaken(str(error)) from None
    if given is None and is_loopback(control.host):
        return None
    token = new_token()
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"klamm serve: the control interface needs the token {token}\n")
        sys.stderr.flush()
    return token


async def _cancel_on_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()
        # A second signal ends the process at once.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        return


async def _cancel_with_stdin(scope: trio.CancelScope) -> None:
    with suppress(OSError):  # stdin is closed, or its terminal no longer exists
        while await trio.to_thread.run_sync(os.read, STDIN, READ_BYTES, abandon_on_cancel=True):
            pass
    scope.cancel()


def _announce(server: Server, control: str, ready_lines: int, events: EventLog) -> None:
    lines = f"bootstrap.servers={server.bootstrap_servers}\n" if server.brokers.by_id else _for_real_brokers(server)
    for name, servers in server.listeners.items():
        lines += f"listener.{name}={servers}\n"
    if server.controller_bootstrap_servers is not None:
        lines += f"controller.quorum.bootstrap.servers={server.controller_bootstrap_servers}\n"
    if server.client_files is not None:
        lines += f"tls.files={server.client_files}\n"
    lines += control
    # One unbuffered write: a reader gets all lines at once. A reader that has gone is no error.
    try:
        os.write(ready_lines, lines.encode())
    except BrokenPipeError:
        pass
    except OSError as error:  # for example a full disk
        events.warning("the ready line could not be written", reason=error.strerror or str(error))


def _for_real_brokers(server: Server) -> str:
    """The lines that the configuration of a real broker needs, and the id for its `meta.properties`."""
    voters = f"{server.identity.controller_id}@{server.controller_bootstrap_servers}"
    return f"cluster.id={server.identity.cluster_id}\ncontroller.quorum.voters={voters}\n"


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of the group; several failures have the same cause."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _tell(failure: BaseException, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm serve: {' '.join(str(failure).split())}\n")
    return exit_code
