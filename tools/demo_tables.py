"""Draws the two tables of the demonstration, readable in a terminal and in a log file."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.demo_clients import Placement

MOST_COLUMNS = 80
LEADER = "● leads"
FOLLOWER = "○"

_console = Console()
_console = Console(width=min(_console.width, MOST_COLUMNS) if _console.is_terminal else MOST_COLUMNS)


def say(line: str) -> None:
    """Print one line, which stays one even if it is wider than the tables."""
    _console.print(Text(line), soft_wrap=True)


def print_client_table(steps_by_client: Mapping[str, Mapping[str, str]]) -> None:
    """One column per client, one row per step."""
    table = Table(title="What each client saw", show_lines=True, title_justify="left")
    table.add_column("step", no_wrap=True)
    for name in steps_by_client:
        table.add_column(name, ratio=1)
    steps = list(next(iter(steps_by_client.values())))
    for step in steps:
        table.add_row(step, *(Text(reported[step]) for reported in steps_by_client.values()))
    _console.print(table)


def print_placement_table(racks: Mapping[int, str | None], placements: Mapping[str, Placement]) -> None:
    """One column per broker, one row per partition."""
    table = Table(title="Where the replicas went, before the topics were deleted", title_justify="left")
    table.add_column("topic", no_wrap=True)
    table.add_column("partition", justify="right")
    for broker_id, rack in racks.items():
        table.add_column(f"broker {broker_id}\nrack {rack}", justify="center")
    for topic_name, placement in placements.items():
        for partition in placement:
            marks = (
                LEADER if broker_id == partition.leader else FOLLOWER if broker_id in partition.replicas else ""
                for broker_id in racks
            )
            first = partition.partition_index == 0
            table.add_row(topic_name if first else "", str(partition.partition_index), *marks)
        table.add_section()
    _console.print(table)
