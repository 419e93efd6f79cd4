"""The commands of `klamm`: their groups, one line about each, an example, and the parser of their options.

Parsers are imported when they are asked for, so that a command imports only the modules that it needs.
"""

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import Final

KAFKA_VERSION: Final = "4.3"
"""The version of Apache Kafka whose behaviour Klamm follows."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, as `klamm --help` lists it."""

    name: str
    text: str
    example: str
    parser: str = ""
    """The function that makes its parser, MODULE:NAME. Empty: the command has no options."""

    def make_parser(self) -> argparse.ArgumentParser | None:
        """The parser of its options; None if it has none."""
        if not self.parser:
            return None
        module, _, name = self.parser.partition(":")
        parser: argparse.ArgumentParser = getattr(import_module(module), name)()
        return parser


GROUPS: Final = {
    "run a cluster": (
        Command(
            "serve",
            "start a simulated Kafka cluster",
            "klamm serve --brokers 3 --control 127.0.0.1:9090",
            "klamm.serve.options:serve_parser",
        ),
        Command(
            "control",
            "stop, start, add and remove its brokers",
            "klamm control --url http://127.0.0.1:9090 stop 2",
            "klamm.control.command:control_parser",
        ),
        Command(
            "broker-properties",
            "print a server.properties for a real broker",
            "klamm broker-properties --id 1 --cluster-id CLUSTER --log-dir /tmp/b1",
            "klamm.broker_properties:broker_properties_parser",
        ),
        Command(
            "scenario",
            "put its brokers through a scenario",
            "klamm scenario run rolling-restart --url http://127.0.0.1:9090",
            "klamm.scenario.command:scenario_parser",
        ),
    ),
    "work with any Kafka cluster": (
        Command(
            "reassign-partitions",
            "move partitions between brokers, and show the progress",
            "klamm reassign-partitions --bootstrap-server HOST:9092 --list",
            "klamm.reassign.options:reassign_parser",
        ),
        Command(
            "follow",
            "keep a copy of a cluster's metadata log",
            "klamm follow --bootstrap-controller HOST:9093 --data-dir copy",
            "klamm.twin.follow_command:follow_parser",
        ),
        Command(
            "clone",
            "write a cluster's metadata as a log, by its admin APIs",
            "klamm clone --bootstrap-server HOST:9092 --out copy",
            "klamm.twin.clone_command:clone_parser",
        ),
        Command(
            "wire",
            "convert Kafka's bytes to JSON and back",
            "klamm wire list",
            "klamm.wire.command:wire_parser",
        ),
        Command(
            "pipeline",
            "make tables and a report from logs, with Spark",
            "klamm pipeline ingest --log data --out tables",
            "klamm.analysis.command:pipeline_parser",
        ),
    ),
    "work without a cluster": (
        Command(
            "try",
            "apply changes to a copy of a cluster's metadata",
            "klamm try --twin copy plan.json",
            "klamm.twin.try_command:try_parser",
        ),
        Command(
            "assign",
            "place replicas: JSON lines in and out, or tables",
            "klamm assign --explain requests.jsonl",
            "klamm.assign.options:assign_parser",
        ),
    ),
    "use the shell": (
        Command(
            "completion",
            "print a script that completes commands and options",
            'eval "$(klamm completion bash)"',
            "klamm.completion:completion_parser",
        ),
    ),
}
COMMANDS: Final = tuple(command for group in GROUPS.values() for command in group)
PARSERS: Final = {command.name: command.parser for command in COMMANDS}


def usage() -> str:
    """The text of `klamm --help`; its lines have at most 80 characters."""
    lines = [
        "usage: klamm COMMAND [OPTIONS]",
        "",
        f"Klamm is a simulated Kafka cluster for tests with Kafka {KAFKA_VERSION}'s protocol.",
    ]
    width = max(len(command.name) for command in COMMANDS)
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        for command in commands:
            lines += [f"  {command.name.ljust(width)}  {command.text}", f"      {command.example}"]
    lines += ["", "klamm COMMAND --help prints its options. klamm --version prints the version.", ""]
    return "\n".join(lines)
