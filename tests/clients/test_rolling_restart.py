"""What KIP-409 is for: topics are made while a cluster of three is restarted broker by broker, and three replicas each.

Then limits (KIP-578): the library sets one itself, meets it, and says what was said to it. Every library goes through
the same story, on a cluster of its own, whose brokers it loses under its hands.
"""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from klamm.cluster.server_process import ServerProcess
from tests.clients.story_clients import (
    BROKER_IDS,
    LIMIT,
    POLICY,
    TOO_FEW_BROKERS,
    Aiokafka,
    ConfluentKafka,
    KafkaPython,
    Row,
    StoryClient,
)

WAIT_SECONDS = 20.0
UNDER_REPLICATED = "enable.under.replicated.topic.creation"
NO_LIMIT = 2**63 - 1
LEAVES_SOCKETS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
LIBRARIES = [
    ConfluentKafka,
    pytest.param(KafkaPython, marks=LEAVES_SOCKETS),
    pytest.param(Aiokafka, marks=LEAVES_SOCKETS),  # one that was connecting when its loop ended; seldom
]


@pytest.fixture
def cluster() -> Iterator[ServerProcess]:
    with ServerProcess("--brokers", "3", "--racks", "a,b,c", "--seed", "7", control=True, warm=True) as process:
        yield process


@pytest.fixture
def client(library: Callable[[str], StoryClient], cluster: ServerProcess) -> Iterator[StoryClient]:
    made = library(cluster.bootstrap_servers)
    yield made
    made.close()
    # Some libraries leave sockets behind when a broker refuses them: they are collected here, where that is known, and
    # not in the middle of another test.
    del made
    gc.collect()


def wait_for(client: StoryClient, topic_name: str, is_so: Callable[[list[Row]], bool]) -> list[Row]:
    """The topic's rows as soon as they are so. Each look is a request: nothing is slept through."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so(rows := client.rows(topic_name)):
        assert time.monotonic() < deadline, f"after {WAIT_SECONDS:.0f} s {topic_name} has {rows}"
    return rows


def are_whole(rows: list[Row]) -> bool:
    return all(sorted(row.isr) == sorted(BROKER_IDS) for row in rows)


def stop(cluster: ServerProcess, client: StoryClient, broker_id: int) -> None:
    servers = dict(zip(BROKER_IDS, cluster.bootstrap_servers.split(","), strict=True))
    cluster.stop_broker(broker_id)
    client.look_again(",".join(server for other, server in servers.items() if other != broker_id))


def start(cluster: ServerProcess, client: StoryClient, broker_id: int) -> None:
    cluster.start_broker(broker_id)
    client.look_again(cluster.bootstrap_servers)


def refusal(client: StoryClient, code: int, ask: Callable[[], None]) -> str:
    """What the library's own exception says, which has to be raised."""
    with pytest.raises(client.refusals[code]) as raised:
        ask()
    told, text = client.code_and_text_of(raised.value)
    assert told == code
    return text


@pytest.mark.parametrize("library", LIBRARIES)
def test_topics_made_during_a_rolling_restart_are_whole_after_it_and_limits_are_met(
    cluster: ServerProcess, client: StoryClient
) -> None:
    stop(cluster, client, 3)
    assert "only 2 broker(s) are live" in refusal(client, TOO_FEW_BROKERS, partial(client.create, "before", 3, 3))
    start(cluster, client, 3)
    client.create("before", 3, 3)
    client.configure_brokers({UNDER_REPLICATED: "true"})
    made = ["before"]
    for down in BROKER_IDS:
        others = sorted(set(BROKER_IDS) - {down})
        name = f"while-{down}-is-down"
        made.append(name)
        stop(cluster, client, down)
        client.create(name, 2, 3)
        client.enlarge(name, 3)
        placed = wait_for(client, name, lambda rows: len(rows) == 3)
        for row in placed:
            assert row.replicas[2] == -1
            assert sorted(row.replicas[:2]) == sorted(row.isr) == others
            assert row.leader == row.replicas[0]
        assert client.replicas_by_another_call(name) == [row.replicas for row in placed]
        start(cluster, client, down)
        filled = wait_for(client, name, are_whole)
        assert [row.replicas for row in filled] == [[*row.replicas[:2], down] for row in placed]
        assert [row.leader for row in filled] == [row.leader for row in placed]
        assert client.replicas_by_another_call(name) == [row.replicas for row in filled]
        wait_for(client, "before", are_whole)
    assert client.topic_names() == set(made)
    meet_limits(client, made)
    for name in made:
        client.delete(name)
    assert client.topic_names() == set()


def meet_limits(client: StoryClient, made: list[str]) -> None:
    held = 3 * len(made)  # by each broker
    assert client.shown_limits() == {str(NO_LIMIT)}
    client.configure_brokers({UNDER_REPLICATED: "true", LIMIT: str(held + 1)})
    assert client.shown_limits() == {str(held + 1)}
    client.create("the-last-one", 1, 3)
    for ask in (partial(client.create, "too-much", 1, 1), partial(client.enlarge, "the-last-one", 2)):
        text = refusal(client, POLICY, ask)
        assert f"max.broker.partitions={held + 1}" in text
        assert f"max.partitions={NO_LIMIT}" in text
    assert client.topic_names() == {*made, "the-last-one"}
    client.configure_brokers({UNDER_REPLICATED: None, LIMIT: None})
    assert client.shown_limits() == {str(NO_LIMIT)}
    client.enlarge("the-last-one", 2)
    assert len(wait_for(client, "the-last-one", are_whole)) == 2
    assert client.topic_config("the-last-one", "cleanup.policy") == "delete"
    client.delete("the-last-one")
