"""Share consumers of a real client: librdkafka's (confluent-kafka), with implicit and explicit acknowledgement."""

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from klamm.cluster.server_process import ServerProcess

PARTITIONS, RECORDS = 1, 200
"""Members that are more than the partitions share them."""
SECONDS = 30
SHORT = {
    "min.record.lock.duration": 1_000,
    "record.lock.duration": 2_000,
    "min.heartbeat.interval": 100,
    "heartbeat.interval": 200,
}
ARGUMENTS = [f"--set=group.share.{name}.ms={value}" for name, value in SHORT.items()]
EARLIEST = [ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """Three brokers whose acquisition locks and heartbeat intervals are short."""
    with ServerProcess("--brokers", "3", *ARGUMENTS, control=True, warm=True) as running:
        yield running


@pytest.fixture
def topic(server: ServerProcess, topic_name: str) -> str:
    """A topic with records numbered from 0, and a group of its name that begins at the first one."""
    _create(server, topic_name)
    _produce(server, topic_name, range(RECORDS))
    return topic_name


def _create(server: ServerProcess, topic_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(topic_name, PARTITIONS, 3)])[topic_name].result()
    resource = ConfigResource(ResourceType.GROUP, topic_name, incremental_configs=EARLIEST)
    admin.incremental_alter_configs([resource])[resource].result()


def _produce(server: ServerProcess, topic_name: str, numbers: range) -> None:
    """Write numbers as records, in batches of at most 20."""
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "batch.num.messages": 20})
    for number in numbers:
        producer.produce(topic_name, value=str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def _member(server: ServerProcess, topic: str, mode: str) -> ShareConsumer:
    member = ShareConsumer(
        {"bootstrap.servers": server.bootstrap_servers, "group.id": topic, "share.acknowledgement.mode": mode}
    )
    member.subscribe([topic])
    return member


def _poll(member: ShareConsumer) -> list[Message]:
    return [message for message in member.poll(0.1) if message.error() is None]


def test_two_members_consume_each_record_once(server: ServerProcess, topic: str) -> None:
    members = [_member(server, topic, "implicit") for _ in range(2)]
    seen: Counter[bytes] = Counter()
    deadline = time.monotonic() + SECONDS
    while len(seen) < RECORDS and time.monotonic() < deadline:
        for member in members:
            seen.update(message.value() or b"" for message in _poll(member))
    for member in members:
        member.close()
    assert seen == Counter({str(number).encode(): 1 for number in range(RECORDS)})


def _lag(server: ServerProcess, group_id: str) -> int | None:
    """The lag that the page shows."""
    with urllib.request.urlopen(f"{server.control_url}/page/snapshot") as response:
        data = response.read()
    head = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    found: list[int | None] = [group["lag"] for group in head["groups"] if group["id"] == group_id]
    assert len(found) == 1
    return found[0]


def test_the_page_shows_how_much_a_group_has_not_read(server: ServerProcess, topic: str) -> None:
    accepted = 0
    with _member(server, topic, "explicit") as member:
        deadline = time.monotonic() + SECONDS
        while not accepted and time.monotonic() < deadline:
            for message in _poll(member):
                member.acknowledge(message, AcknowledgeType.ACCEPT)
                accepted += 1
            member.commit_sync()
    assert accepted > 0
    assert _lag(server, topic) == RECORDS - accepted


def test_members_go_on_when_their_coordinators_move(server: ServerProcess, topic: str) -> None:
    """The group coordinator has the members, the share coordinator has what was delivered."""
    seen: set[bytes] = set()
    deadline = time.monotonic() + SECONDS
    with _member(server, topic, "implicit") as member:
        while not seen and time.monotonic() < deadline:
            seen.update(message.value() or b"" for message in _poll(member))
        assert server.rehash_coordinators("share groups") > 0
        assert server.rehash_coordinators("groups") > 0
        _produce(server, topic, range(RECORDS, RECORDS + 20))
        while len(seen) < RECORDS + 20 and time.monotonic() < deadline:
            seen.update(message.value() or b"" for message in _poll(member))
    assert seen == {str(number).encode() for number in range(RECORDS + 20)}


def test_released_records_come_again_and_rejected_ones_do_not(server: ServerProcess, topic: str) -> None:
    """Of each ten records, the first delivery of one is released and another one is rejected."""
    accepted: Counter[int] = Counter()
    deliveries: Counter[int] = Counter()
    with _member(server, topic, "explicit") as member:
        deadline = time.monotonic() + SECONDS
        while deliveries.total() < RECORDS + RECORDS // 10 and time.monotonic() < deadline:
            for message in _poll(member):
                number = int(message.value() or b"")
                deliveries[number] += 1
                is_new = deliveries[number] == 1
                what = {3: AcknowledgeType.RELEASE, 7: AcknowledgeType.REJECT}.get(number % 10 if is_new else 0)
                member.acknowledge(message, AcknowledgeType.ACCEPT if what is None else what)
                accepted[number] += what is None
            member.commit_sync()
    numbers = range(RECORDS)
    assert deliveries == Counter({number: 2 if number % 10 == 3 else 1 for number in numbers})
    assert +accepted == Counter({number: 1 for number in numbers if number % 10 != 7})


def test_what_a_lost_member_had_is_delivered_to_another(server: ServerProcess, topic: str) -> None:
    """The first member acknowledges nothing and asks no more; its locks end."""
    lost = _member(server, topic, "explicit")
    deadline = time.monotonic() + SECONDS
    held: list[Message] = []
    while not held and time.monotonic() < deadline:
        held = _poll(lost)
    assert held
    seen: set[bytes] = set()
    with _member(server, topic, "implicit") as other:
        while len(seen) < RECORDS and time.monotonic() < deadline:
            seen |= {message.value() or b"" for message in _poll(other)}
    lost.close()
    assert seen == {str(number).encode() for number in range(RECORDS)}


def test_a_group_goes_on_after_a_restart_with_a_data_directory(tmp_path: Path) -> None:
    seen: Counter[bytes] = Counter()
    for run in range(2):
        with ServerProcess("--brokers", "3", "--data-dir", str(tmp_path / "data"), *ARGUMENTS, warm=True) as server:
            if not run:
                _create(server, "t")
            _produce(server, "t", range(run * RECORDS, (run + 1) * RECORDS))
            deadline = time.monotonic() + SECONDS
            with _member(server, "t", "implicit") as member:
                while len(seen) < (run + 1) * RECORDS and time.monotonic() < deadline:
                    seen.update(message.value() or b"" for message in _poll(member))
    assert seen == Counter({str(number).encode(): 1 for number in range(2 * RECORDS)})


def test_a_member_gets_all_records_though_their_leader_crashes() -> None:
    seen: set[bytes] = set()
    with (
        ServerProcess("--brokers", "3", *ARGUMENTS, control=True, warm=True) as server,
        _member(server, "t", "implicit") as member,
    ):
        _create(server, "t")
        deadline = time.monotonic() + SECONDS
        for run in range(2):
            _produce(server, "t", range(run * RECORDS, (run + 1) * RECORDS))
            while len(seen) < (run + 1) * RECORDS and time.monotonic() < deadline:
                seen |= {message.value() or b"" for message in _poll(member)}
            if not run:
                admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
                server.stop_broker(admin.list_topics("t").topics["t"].partitions[0].leader, "crash")
    assert seen == {str(number).encode() for number in range(2 * RECORDS)}
