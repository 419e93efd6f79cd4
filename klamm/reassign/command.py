"""`klamm reassign-partitions`: runs one action on a cluster and prints its report.

Exit codes are those of Apache Kafka's tool: 0 success, 1 failure, with the reason in one line on stderr. After an
interrupt it is 130.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio

from klamm.admin.client import AdminClient
from klamm.admin.client_configs import InvalidClientProperties
from klamm.admin.client_properties import ClientProperties, command_properties
from klamm.admin.errors import AdminError
from klamm.protocol.printable import printable
from klamm.reassign import actions
from klamm.reassign.files import InvalidFile, Target, as_text, read_targets, read_topics
from klamm.reassign.options import Action, ReassignOptions
from klamm.reassign.progress import progress, progress_report
from klamm.reassign.report import ReassignFailed, Report
from klamm.reassign.watch import Seen, watch

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
ANSWER_SECONDS: Final = 30.0
"""The longest time for one request, in seconds, in addition to --timeout, which limits the controller."""
_STDOUT: Final = 1


def reassign_command(options: ReassignOptions) -> int:
    """Run `klamm reassign-partitions` with these options; returns the exit code."""
    interrupted = False
    exit_code = EXIT_FAILED
    try:
        exit_code = _run(options)
    except* KeyboardInterrupt:  # trio may raise it in an exception group
        interrupted = True
    if interrupted:
        return _tell("interrupted; reassignments that have started continue", EXIT_INTERRUPTED)
    return exit_code


def _run(options: ReassignOptions) -> int:
    try:
        targets = read_targets(options.reassignment_file) if options.reassignment_file is not None else ()
        topic_names = read_topics(options.topics_file) if options.topics_file is not None else ()
        properties = command_properties(options.command_config)
        if properties.warning is not None:
            _tell(f"warning: {options.command_config}: {properties.warning}", EXIT_DONE)
        return trio.run(_act, options, properties, targets, topic_names)
    except (InvalidFile, InvalidClientProperties, ReassignFailed, AdminError) as error:
        return _tell(error, EXIT_FAILED)
    except BrokenPipeError:
        return EXIT_DONE  # the reader has closed the pipe
    except OSError as error:
        return _tell(error.strerror or error, EXIT_FAILED)


async def _act(
    options: ReassignOptions, properties: ClientProperties, targets: Sequence[Target], topic_names: Sequence[str]
) -> int:
    answer_seconds = ANSWER_SECONDS + options.timeout_ms / 1000
    client = AdminClient(
        options.bootstrap_servers,
        client_id=properties.client_id or "klamm-reassign-partitions",
        request_timeout_seconds=answer_seconds,
        properties=properties,
    )
    async with client as admin:
        if options.action is Action.WATCH:
            return await _watch(admin, targets, options.as_json)
        report = await _report(admin, options, targets, topic_names)
        exit_code = _print(report, options.as_json)
        if options.watch and exit_code == EXIT_DONE:
            return await _watch(admin, targets, options.as_json)
        return exit_code


async def _report(
    admin: AdminClient, options: ReassignOptions, targets: Sequence[Target], topic_names: Sequence[str]
) -> Report:
    if options.action is Action.GENERATE:
        # Imported only for --generate, because NumPy takes as long to import as all the rest.
        from klamm.reassign.proposal import generate

        rack_aware = not options.disable_rack_aware
        return await generate(admin, topic_names, options.broker_list, rack_aware=rack_aware)
    if options.action is Action.EXECUTE:
        return await actions.execute(
            admin,
            targets,
            additional=options.additional,
            throttle=options.throttle,
            allow_replication_factor_change=options.allow_replication_factor_change,
            timeout_ms=options.timeout_ms,
        )
    if options.action is Action.VERIFY:
        return await actions.verify(admin, targets, preserve_throttles=options.preserve_throttles)
    if options.action is Action.PROGRESS:
        return await progress(admin, targets)
    if options.action is Action.LIST:
        return await actions.list_moves(admin)
    keep, timeout_ms = options.preserve_throttles, options.timeout_ms
    return await actions.cancel(admin, targets, preserve_throttles=keep, timeout_ms=timeout_ms)


async def _watch(admin: AdminClient, targets: Sequence[Target], as_json: bool) -> int:
    if as_json or not _is_terminal():
        report = await watch(admin, targets, _Changes(as_json))
        return _tell_failure(report) if as_json else _print(report, as_json)
    # Imported only for a terminal, because rich takes longer to import than all the rest.
    from klamm.reassign.live_table import LiveTable

    with LiveTable() as table:
        report = await watch(admin, targets, table.show)
    return _tell_failure(report)


class _Changes:
    """The screen without a terminal: prints a line whenever a row has changed."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._before: object = None

    def __call__(self, seen: Seen) -> None:
        if seen.rows != self._before:
            _write(f"{as_text(progress_report(seen.rows).content) if self._as_json else printable(seen.sentence())}\n")
        self._before = seen.rows


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _print(report: Report, as_json: bool) -> int:
    _write(f"{as_text(report.content)}\n" if as_json else "".join(f"{printable(line)}\n" for line in report.lines))
    return _tell_failure(report)


def _write(text: str) -> None:
    # Without Python's buffer, so that nothing has to be flushed when the reader has closed the pipe.
    left = memoryview(text.encode())
    while left:
        left = left[os.write(_STDOUT, left) :]


def _tell_failure(report: Report) -> int:
    return EXIT_DONE if report.failure is None else _tell(report.failure, EXIT_FAILED)


def _tell(reason: object, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm reassign-partitions: {printable(' '.join(str(reason).split()))}\n")
    return exit_code
