"""`klamm scenario`: run a scenario by the control interface of a cluster, with a report. The standard library alone.

Exit codes: 0 all steps succeeded, 1 a step failed or the scenario took too long, 2 for a wrong call or scenario; then
one line on stderr says why.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from klamm.console.options import CommandParser, UsageError
from klamm.control.client import ControlClient
from klamm.control.scenario_file import find_scenario, shipped_scenarios
from klamm.control.scenario_run import Happened, Report, Run, ScenarioFailed
from klamm.protocol.printable import printable

URL_VARIABLE = "KLAMM_CONTROL_URL"
EXIT_DONE, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2


def scenario_parser() -> CommandParser:
    """The options and commands of `klamm scenario`."""
    parser = CommandParser(
        prog="klamm scenario",
        description="Put a running cluster through a scenario: timed or awaited steps from a file (docs/scenarios.md).",
        example="klamm scenario run rolling-restart --control http://127.0.0.1:9090",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    text = "run a scenario, and report what happened when"
    running = commands.add_parser("run", help=text, description=text,
        example="klamm scenario run leader-loss --control http://127.0.0.1:9090")  # fmt: skip
    running.set_defaults(action=_run)
    running.add_argument("scenario", metavar="FILE", help="a file, JSON or YAML, or the name of one that comes with "
        "Klamm")  # fmt: skip
    running.add_argument("--control", metavar="URL", help="address of the control interface, which klamm serve prints "
        f"as control=URL (default: ${URL_VARIABLE})")  # fmt: skip
    running.add_argument("--set", metavar="NAME=VALUE", dest="parameters", type=_parameter, action="append", default=[],
        help="a parameter of the scenario; can be repeated")  # fmt: skip
    running.add_argument("--json", dest="as_json", action="store_true", help="print the report as JSON, at the end")
    text = "list the scenarios that come with Klamm"
    commands.add_parser("list", help=text, description=text, example="klamm scenario list").set_defaults(action=_list)
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


def _run(given: argparse.Namespace, environment: Mapping[str, str]) -> int:
    url = given.control or environment.get(URL_VARIABLE)
    if not url:
        raise UsageError(f"the cluster has no address: give --control http://HOST:PORT or set {URL_VARIABLE}")
    report = Report(scenario=given.scenario)

    def say(happened: Happened) -> None:
        if not given.as_json:
            _write("".join(Report(scenario="", steps=[happened]).text().splitlines(keepends=True)[1:]))

    try:
        client = ControlClient(url)
        run = Run(find_scenario(given.scenario, ControlClient), dict(given.parameters), say)
    except ValueError as error:
        raise UsageError(str(error)) from None
    failure: ScenarioFailed | None = None
    try:
        report = run.run(client)
    except ScenarioFailed as error:
        failure, report = error, error.report
    if given.as_json:
        _write(json.dumps(report.as_json(), default=str) + "\n")
    else:
        _write("".join(Report(scenario="", faults=report.faults).text().splitlines(keepends=True)[1:]))
    if failure is None:
        return EXIT_DONE
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm scenario: {printable(' '.join(str(failure).split()))}\n")
    return EXIT_FAILED


def _write(text: str) -> None:
    with suppress(OSError, AttributeError):  # the reader has gone; the scenario goes on
        sys.stdout.write(text)
        sys.stdout.flush()


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: NAME=VALUE is expected")
    return name, int(value) if value.isascii() and value.isdigit() and len(value) < 19 else value
