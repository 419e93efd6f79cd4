"""`klamm scenario`: run a scenario by the control interface of a cluster, with a report. The standard library alone.

Exit codes: 0 all steps succeeded, 1 a step failed or the scenario took too long, 2 for a wrong call or scenario, or if
no control interface answers, 130 after SIGINT and 143 after SIGTERM; then one line on stderr says why.
"""

import argparse
import json
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from klamm.console.options import CommandParser, UsageError
from klamm.control.client import ControlClient, ControlError, ControlUnreachable
from klamm.control.scenario_file import find_scenario, shipped_scenarios
from klamm.control.scenario_run import Happened, Report, Run, ScenarioFailed
from klamm.protocol.printable import printable

URL_VARIABLE = "KLAMM_CONTROL_URL"
EXIT_DONE, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2
EXIT_BY_SIGNAL = 128
"""Plus the number of the signal, as shells have it."""
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
LONG_SECONDS = 1.0
"""A step that takes longer is printed when this time is over, and again when it ends."""


class Stopped(BaseException):
    """SIGINT or SIGTERM ends the run. No `Exception`, so that a step does not take it for its own failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _NoCluster(argparse.Action):
    """Refuses the address of a cluster."""

    def __call__(self, *_: Any) -> None:
        raise argparse.ArgumentError(self, "this command asks no cluster: leave the address out")


def scenario_parser() -> CommandParser:
    """The options and commands of `klamm scenario`."""
    parser = CommandParser(
        prog="klamm scenario",
        description="Run a scenario on a cluster: a list of steps from a file (docs/scenarios.md).",
        example="klamm scenario run rolling-restart --url http://127.0.0.1:9090",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    text = "run a scenario, and report its steps with their times"
    running = commands.add_parser("run", help=text, description=text,
        example="klamm scenario run leader-loss --url http://127.0.0.1:9090")  # fmt: skip
    running.set_defaults(action=_run)
    running.add_argument("scenario", metavar="FILE", help="a JSON or YAML file, or the name of a scenario that "
        "comes with Klamm")  # fmt: skip
    running.add_argument("--url", metavar="URL", help="address of the control interface. klamm serve prints "
        f"control=URL (default: ${URL_VARIABLE})")  # fmt: skip
    running.add_argument("--control", metavar="URL", dest="url", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    running.add_argument("--set", metavar="NAME=VALUE", dest="parameters", type=_parameter, action="append", default=[],
        help="a parameter of the scenario, can be repeated")  # fmt: skip
    running.add_argument("--json", dest="as_json", action="store_true", help="print the report as JSON, at the end")
    text = "print the steps of a scenario"
    showing = commands.add_parser("show", help=text, description=text, example="klamm scenario show rolling-restart")
    showing.set_defaults(action=_show)
    showing.add_argument("scenario", metavar="FILE", help="a file, or the name of a scenario that comes with Klamm")
    text = "list the scenarios that come with Klamm"
    listing = commands.add_parser("list", help=text, description=text, example="klamm scenario list")
    listing.set_defaults(action=_list)
    for without_cluster in (showing, listing):
        for option in ("--url", "--control"):
            without_cluster.add_argument(option, action=_NoCluster, help=argparse.SUPPRESS)
    return parser


def scenario_command(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `klamm scenario`; returns the exit code. Raises `UsageError`."""
    given = scenario_parser().parse_args(arguments)
    code: int = given.action(given, environment)
    return code


def _list(_: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    for name in shipped_scenarios():
        found = find_scenario(name, ControlClient)
        parameters = " ".join(f"{key}={value}" for key, value in found.parameters.items())
        _write(f"{name}: {found.description}\n    {parameters}\n")
    return EXIT_DONE


def _show(given: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    try:
        find_scenario(given.scenario, ControlClient)
        path = shipped_scenarios().get(given.scenario) or Path(given.scenario)
        _write(path.read_text())
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    return EXIT_DONE


def _run(given: argparse.Namespace, environment: Mapping[str, str]) -> int:
    lines = _Lines(shown=not given.as_json)
    failure = ""
    exit_code = EXIT_FAILED
    report = Report(scenario=given.scenario)
    try:
        scenario = find_scenario(given.scenario, ControlClient)
        client = ControlClient(_url(given, environment))
        run = Run(scenario, dict(given.parameters), lines.ended, begun=lines.begun)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        with _stopped_by_signals(run):
            _refuse_unreachable(client)
            report = run.run(client)
        exit_code = EXIT_DONE
    except ScenarioFailed as error:
        failure, report = str(error), error.report
    except Stopped as error:
        failure = f"stopped by {signal.Signals(error.number).name}; its steps with undo are undone, its rules removed"
        exit_code, report = EXIT_BY_SIGNAL + error.number, run.report
    finally:
        lines.close()
    if given.as_json:
        _write(json.dumps(report.as_json(), default=str) + "\n")
    else:
        _write("".join(Report(scenario="", faults=report.faults).text().splitlines(keepends=True)[1:]))
    if failure:
        with suppress(OSError, AttributeError):  # there may be no stderr
            sys.stderr.write(f"klamm scenario: {printable(' '.join(failure.split()))}\n")
    return exit_code


def _refuse_unreachable(client: ControlClient) -> None:
    """Refuse an address where no control interface answers, before a step of the scenario fails for it."""
    try:
        client.brokers()
    except ControlUnreachable as error:
        raise UsageError(str(error)) from None
    except ControlError:
        return  # the first step has the reason


def _url(given: argparse.Namespace, environment: Mapping[str, str]) -> str:
    url: str | None = given.url or environment.get(URL_VARIABLE)
    if not url:
        raise UsageError(f"the cluster has no address: give --url http://HOST:PORT or set {URL_VARIABLE}")
    return url


@contextmanager
def _stopped_by_signals(run: Run) -> Iterator[None]:
    """SIGINT and SIGTERM end the run, which removes its fault rules first. An ignored signal stays ignored."""

    def stop(number: int, _frame: FrameType | None) -> None:
        run.interrupt(Stopped(number))

    former = {}
    for one in (signal.SIGINT, signal.SIGTERM):
        if threading.current_thread() is threading.main_thread() and signal.getsignal(one) is not signal.SIG_IGN:
            former[one] = signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)


class _Lines:
    """Prints each step when it has ended, and one that takes long also while it runs."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._timer: threading.Timer | None = None

    def begun(self, at_seconds: float, step: str) -> None:
        """A step has begun."""
        if self._shown:
            self._timer = threading.Timer(LONG_SECONDS, _write, (printable(f"{at_seconds:8.3f} s  {step} …") + "\n",))
            self._timer.daemon = True
            self._timer.start()

    def ended(self, happened: Happened) -> None:
        """A step has ended."""
        self.close()
        if self._shown:
            _write("".join(Report(scenario="", steps=[happened]).text().splitlines(keepends=True)[1:]))

    def close(self) -> None:
        """Print nothing more about the step that runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _write(text: str) -> None:
    with suppress(OSError, AttributeError):  # the reader has gone; the scenario goes on
        sys.stdout.write(text)
        sys.stdout.flush()


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: NAME=VALUE is expected")
    if _NUMBER.fullmatch(value) is None:
        return name, value
    return name, float(value) if "." in value else int(value)
