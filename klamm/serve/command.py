"""`klamm serve`: a cluster in the foreground, until SIGTERM or SIGINT.

Nothing but the ready lines goes to stdout. Exit codes: 0 after a signal (or, if asked for, the end of stdin), 2 for
what is wrong with the call or with what it names (one line on stderr says what), 1 when the log of a running cluster
fails (one line, too). The control interface, and quart and hypercorn with it, is imported only where it is asked for.
"""

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace

import trio

from klamm.cluster.assembly import FATAL_ERRORS, START_ERRORS, open_cluster
from klamm.cluster.plan import ClusterPlan, plan_cluster
from klamm.controller.settings import SettingsError
from klamm.serve.options import DEFAULT_LISTEN, ServeOptions
from klamm.server.addresses import Address
from klamm.server.admission import raise_open_files_limit
from klamm.server.event_log import EventLog
from klamm.server.server import Server

EXIT_FAILED, EXIT_REFUSED = 1, 2
STDIN, STDOUT, STDERR = 0, 1, 2
READ_BYTES = 4096


def serve_command(options: ServeOptions) -> int:
    """Run `klamm serve` with these options; returns the exit code."""
    ready_lines = _stdout_for_ready_lines()
    events = EventLog(options.log_format)
    try:
        plan = plan_cluster(options, os.environ, DEFAULT_LISTEN)
    except SettingsError as error:
        return _tell(error, EXIT_REFUSED)
    raise_open_files_limit()
    return trio.run(_serve, plan, options, ready_lines, events)


def _stdout_for_ready_lines() -> int:
    """A descriptor of stdout for the ready lines alone.

    Whatever else is written there, such as by a policy that prints, goes to stderr from now on: it must not be taken
    for a ready line, nor wait for somebody to read it.
    """
    try:
        ready_lines = os.dup(STDOUT)
    except OSError:  # stdout is closed, and its number must not become a file's of ours
        return os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # stderr is closed: there is nothing to keep apart
        os.dup2(STDERR, STDOUT)
    sys.stdout = sys.stderr  # unbuffered by lines, where stdout would keep what is printed until it is 8 KiB
    return ready_lines


async def _serve(plan: ClusterPlan, options: ServeOptions, ready_lines: int, events: EventLog) -> int:
    ready = trio.Event()
    failure: BaseException | None = None
    try:
        await _serve_until_told(plan, options, ready_lines, events, ready)
    except* (*START_ERRORS, *FATAL_ERRORS) as failures:
        failure = _first(failures)
    return 0 if failure is None else _tell(failure, EXIT_FAILED if ready.is_set() else EXIT_REFUSED)


async def _serve_until_told(
    plan: ClusterPlan, options: ServeOptions, ready_lines: int, events: EventLog, ready: trio.Event
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_signal, signals, nursery.cancel_scope)
            if options.stop_with_stdin:
                nursery.start_soon(_cancel_with_stdin, nursery.cancel_scope)
            async with _open_with_control(plan, options.control, events) as (server, control_url):
                # What was made for the start lives as long as the process: no later collection has to look at it.
                gc.freeze()
                # A young generation of a large answer's size: less often a pause in the middle of one (p99.9: a sixth).
                gc.set_threshold(50_000, 20, 100)
                ready.set()
                _announce(server, control_url, ready_lines, events)
                await trio.sleep_forever()


@asynccontextmanager
async def _open_with_control(
    plan: ClusterPlan, control: Address | None, events: EventLog
) -> AsyncIterator[tuple[Server, str | None]]:
    """The cluster, and where its control interface is if there is to be one."""
    if control is None:
        async with open_cluster(plan, events) as server:
            yield server, None
        return
    from klamm.control.serving import ControlPort, kept_files, open_control

    # As with the brokers' ports: what is most often not there comes first.
    with closing(ControlPort(control)) as port:
        plan = replace(plan, kept_files=kept_files())
        async with open_cluster(plan, events) as server, open_control(port, server, events):
            yield server, port.url(plan.listeners.advertised_host)


async def _cancel_on_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()
        # Whoever asks twice means it: the second signal ends the process as if we had no say in it.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        return


async def _cancel_with_stdin(scope: trio.CancelScope) -> None:
    with suppress(OSError):  # closed from the beginning, or a terminal that is gone
        while await trio.to_thread.run_sync(os.read, STDIN, READ_BYTES, abandon_on_cancel=True):
            pass
    scope.cancel()


def _announce(server: Server, control_url: str | None, ready_lines: int, events: EventLog) -> None:
    lines = f"bootstrap.servers={server.bootstrap_servers}\n"
    for name, servers in server.listeners.items():
        lines += f"listener.{name}={servers}\n"
    if server.controller_bootstrap_servers is not None:
        lines += f"controller.quorum.bootstrap.servers={server.controller_bootstrap_servers}\n"
    if control_url is not None:
        lines += f"control={control_url}\n"
    # One write and no buffer: whoever reads the line may connect. Nobody has to read it.
    try:
        os.write(ready_lines, lines.encode())
    except BrokenPipeError:
        pass
    except OSError as error:  # a full disk: whoever waits for the line should find out why there is none
        events.warning("the ready line could not be written", reason=error.strerror or str(error))


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of the failures; if there are several, they come from the same cause."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _tell(failure: BaseException, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm serve: {' '.join(str(failure).split())}\n")
    return exit_code
