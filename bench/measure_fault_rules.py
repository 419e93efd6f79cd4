"""What a thousand fault rules cost a request: `python -m bench.measure_fault_rules`, in one process, without sockets.

Each row has the median of many requests, in microseconds, of the look-up and the matching alone. The names of requests
repeat, or are new each time; no rule matches them, but one in the row about a hit.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle
from statistics import median
from time import perf_counter_ns
from typing import Any

from klamm.controller.client import Client
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import heartbeat
from klamm.server.faults.reading import read_rule
from klamm.server.faults.rule import Asked
from klamm.server.faults.rules import FaultRules

RULES = 1_000
REQUESTS = 5_000
NAMES = 100
CLIENT = Client("broker", 1)
Rule = Callable[[int], Mapping[str, Any]]

KINDS: dict[str, Rule] = {
    "topics by name": lambda n: {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": f"topic-{n}"},
    "topics by beginning": lambda n: {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": f"topic-{n}-*"},
    "topics by end": lambda n: {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": f"*-topic-{n}"},
    "topics by a part": lambda n: {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": f"*-topic-{n}-*"},
    "groups by beginning": lambda n: {"api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID", "group": f"group-{n}-*"},
    "client ids by beginning": lambda n: {"api": "Produce", "answer": "none", "client_id": f"client-{n}-*"},
    "transactional ids by beginning": lambda n: {
        "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "transactional_id": f"tx-{n}-*",
    },
    "brokers": lambda n: {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "broker": n + 2, "topic": f"x{n}*"},
}  # fmt: skip


def produce_to(name: str) -> Asked:
    data = [produce.PartitionProduceData(index=0)]
    request = produce.ProduceRequest(topic_data=[produce.TopicProduceData(name=name, partition_data=data)])
    return Asked(produce.API, 9, request, CLIENT, "measuring")


def beat_of(name: str) -> Asked:
    return Asked(heartbeat.API, 4, heartbeat.HeartbeatRequest(group_id=name), CLIENT, "measuring")


def rules_of(kind: str, number_of_rules: int) -> FaultRules:
    rules = FaultRules(7, lambda: 0, lambda _: None, lambda: None)
    for number in range(number_of_rules):
        rules.add(read_rule(KINDS[kind](number)))
    return rules


def asked_of(kind: str, name: str) -> Asked:
    """A request of the kind that these rules are about."""
    return beat_of(name) if kind.startswith("groups") else produce_to(name)


def measure(kind: str, names: Iterator[str], requests: int = REQUESTS) -> float:
    """The median of a request in µs, with a thousand rules of a kind."""
    rules = rules_of(kind, RULES)
    spent = []
    for number in range(requests):
        asked = asked_of(kind, next(names))
        began = perf_counter_ns()
        if rules.concern(asked.api.key):
            rules.strike(asked, number)
        spent.append(perf_counter_ns() - began)
    return median(spent) / 1000


def measure_without(requests: int = REQUESTS) -> float:
    """The median in µs of the only thing that a request pays if there are no rules."""
    rules = FaultRules(7, lambda: 0, lambda _: None, lambda: None)
    spent, at_once = [], 100
    for _ in range(requests // at_once):
        began = perf_counter_ns()
        for _ in range(at_once):
            rules.concern(produce.API.key)
        spent.append((perf_counter_ns() - began) / at_once)
    return median(spent) / 1000


def main() -> int:
    """Print a line for each kind of rule."""
    print(f"no rules: {measure_without():.2f} µs")
    for kind in KINDS:
        repeated = measure(kind, cycle([f"orders-{number}" for number in range(NAMES)]))
        new = measure(kind, (f"orders-{number}" for number in count()))
        print(f"{RULES} rules, {kind}: {repeated:.1f} µs with {NAMES} names, {new:.1f} µs with a new name each time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
