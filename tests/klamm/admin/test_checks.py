"""A wrong argument of the admin client is a TypeError that names it, and no request is sent."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

import klamm
from klamm import ConfigAlteration, ConfigResource, NewPartitions, NewTopic, TopicAlteration, Uuid
from klamm.admin.checks import checked_items
from tests.klamm.admin.peer import Asked, Peer, served

ALL = ConfigResource.broker()
LIMIT = ConfigAlteration("max.partitions", "3")
# Calls that a type checker would refuse.
topic: Any = NewTopic
partitions: Any = NewPartitions
alteration: Any = ConfigAlteration
resource: Any = ConfigResource
wish: Any = TopicAlteration
name: Any = "PREFERRED"
PLACE = "a tuple of topic name and partition index is expected"
REPLICA = "a tuple of topic name and partition index and broker id is expected"


@pytest.mark.parametrize(("make", "said"), [
    (lambda: topic(3), "topic name 3: a string is expected"),
    (lambda: topic("t", "3"), "num_partitions '3': a whole number is expected"),
    (lambda: topic("t", 3, True), "replication_factor True: a whole number is expected"),
    (lambda: topic("t", 3, 1.0), "replication_factor 1.0: a whole number is expected"),
    (lambda: topic("t", 3, 1, ["a=b"]), "configs ['a=b']: a mapping is expected"),
    (lambda: topic("t", 3, 1, {"flush.ms": 5}), "value of config flush.ms: 5: a string or None is expected"),
    (lambda: topic("t", 3, 1, {5: "5"}), "config name 5: a string is expected"),
    (lambda: topic("t", replica_assignments=[[1]]), "replica_assignments [[1]]: a mapping is expected"),
    (lambda: topic("t", replica_assignments={"0": [1]}), "partition index '0': a whole number is expected"),
    (lambda: topic("t", replica_assignments={0: 1}), "broker ids 1: a list of them is expected"),
    (lambda: topic("t", replica_assignments={0: "12"}), "broker ids '12': a list of them is expected"),
    (lambda: topic("t", replica_assignments={0: ["1"]}), "in broker ids, '1': a whole number is expected"),
    (lambda: partitions(None, 3), "topic name None: a string is expected"),
    (lambda: partitions("t", "3"), "total_count '3': a whole number is expected"),
    (lambda: partitions("t", 3, [1, 2]), "in replica_assignments, 1: a sequence is expected"),
    (lambda: partitions("t", 3, [["1"]]), "in broker ids, '1': a whole number is expected"),
    (lambda: wish(b"t"), "topic name b't': a string is expected"),
    (lambda: wish("t", 3.0), "num_partitions 3.0: a whole number is expected"),
    (lambda: wish("t", None), "num_partitions None: a whole number is expected"),
    (lambda: wish("t", 3, "2"), "replication_factor '2': a whole number is expected"),
    (lambda: wish("t", replica_assignments=None), "replica_assignments None: a mapping is expected"),
    (lambda: wish("t", replica_assignments="0:1"), "replica_assignments '0:1': a mapping is expected"),
    (lambda: wish("t", replica_assignments={"0": [1]}), "partition index '0': a whole number is expected"),
    (lambda: wish("t", replica_assignments={0: 1.5}), "broker ids 1.5: a list of them is expected"),
    (lambda: wish("t", replica_assignments={0: [["1"]]}), "in broker ids, ['1']: a whole number is expected"),
    (lambda: alteration("max.partitions", 3), "value of config max.partitions: 3: a string or None is expected"),
    (lambda: alteration("a", "b", 0), "operation 0: a ConfigOperation is expected"),
    (lambda: alteration.delete(3), "config name 3: a string is expected"),
    (lambda: resource("topic", "t"), "resource type 'topic': a ConfigResourceType is expected"),
    (lambda: resource.topic(3), "resource name 3: a string is expected"),
])  # fmt: skip
def test_values_are_made_of_what_they_say(make: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        make()


@pytest.mark.parametrize(("method", "argument", "said"), [
    ("create_topics", "abc", "topics 'abc': a list of them is expected"),
    ("create_topics", None, "topics None: a list of them is expected"),
    ("create_topics", NewTopic("t"), "topics NewTopic("),
    ("create_topics", ["t", ("t", 1, 1)], "in topics, ('t', 1, 1): a NewTopic or a string is expected"),
    ("create_partitions", ["t"], "in topics, 't': a NewPartitions is expected"),
    ("delete_topics", "abc", "topics 'abc': a list of them is expected"),
    ("delete_topics", [b"t"], "in topics, b't': a string or a Uuid is expected"),
    ("metadata", "nope", "topics 'nope': a list of them is expected"),
    ("metadata", [3], "in topics, 3: a string or a Uuid is expected"),
    ("describe_topic_partitions", "abc", "topics 'abc': a list of them is expected"),
    ("describe_topic_partitions", [Uuid(range(16))], "in topics, Uuid("),
    ("describe_configs", ALL, "resources ConfigResource("),
    ("describe_configs", ["t"], "in resources, 't': a ConfigResource is expected"),
    ("incremental_alter_configs", [LIMIT], "alterations [ConfigAlteration("),
    ("incremental_alter_configs", {"t": [LIMIT]}, "in resources, 't': a ConfigResource is expected"),
    ("incremental_alter_configs", {ALL: LIMIT}, "alterations ConfigAlteration("),
    ("incremental_alter_configs", {ALL: {"a": "b"}}, "in alterations, 'a': a ConfigAlteration is expected"),
    ("alter_configs", [(ALL, {"a": "b"})], "configs [("),
    ("alter_configs", {ALL: [("a", "b")]}, "configs [('a', 'b')]: a mapping is expected"),
    ("alter_configs", {ALL: {"a": 3}}, "value of config a: 3: a string or None is expected"),
    ("alter_configs", {"t": {"a": "b"}}, "in resources, 't': a ConfigResource is expected"),
    ("alter_topics", "t", "alterations 't': a list of them is expected"),
    ("alter_topics", None, "alterations None: a list of them is expected"),
    ("alter_topics", TopicAlteration("t"), "alterations TopicAlteration("),
    ("alter_topics", {"t": 3}, "in alterations, 't': a TopicAlteration is expected"),
    ("alter_topics", [["t", 3]], "in alterations, ['t', 3]: a TopicAlteration is expected"),
    ("alter_partition_reassignments", "t-0", "targets 't-0': a mapping is expected"),
    ("alter_partition_reassignments", None, "targets None: a mapping is expected"),
    ("alter_partition_reassignments", 1.5, "targets 1.5: a mapping is expected"),
    ("alter_partition_reassignments", [("t", 0)], "targets [('t', 0)]: a mapping is expected"),
    ("alter_partition_reassignments", {"t0": [1]}, f"in targets, 't0': {PLACE}"),
    ("alter_partition_reassignments", {"t": {0: [1]}}, f"in targets, 't': {PLACE}"),
    ("alter_partition_reassignments", {("t", 0, 1): [1]}, f"in targets, ('t', 0, 1): {PLACE}"),
    ("alter_partition_reassignments", {("t", "0"): [1]}, "partition index '0': a whole number is expected"),
    ("alter_partition_reassignments", {("t", 0.0): [1]}, "partition index 0.0: a whole number is expected"),
    ("alter_partition_reassignments", {(0, "t"): [1]}, "topic name 0: a string is expected"),
    ("alter_partition_reassignments", {("t", 0): 1}, "broker ids 1: a list of them is expected"),
    ("alter_partition_reassignments", {("t", 0): "12"}, "broker ids '12': a list of them is expected"),
    ("alter_partition_reassignments", {("t", 0): ["1"]}, "in broker ids, '1': a whole number is expected"),
    ("alter_partition_reassignments", {("t", 0): [1.0]}, "in broker ids, 1.0: a whole number is expected"),
    ("alter_partition_reassignments", {("t", 0): [None]}, "in broker ids, None: a whole number is expected"),
    ("alter_partition_reassignments", {("t", 0): [["1"]]}, "in broker ids, ['1']: a whole number is expected"),
    ("list_partition_reassignments", "t", "partitions 't': a list of them is expected"),
    ("list_partition_reassignments", ["t0"], f"in partitions, 't0': {PLACE}"),
    ("list_partition_reassignments", [("t", None)], "partition index None: a whole number is expected"),
    ("elect_leaders", 3, "partitions 3: a list of them is expected"),
    ("elect_leaders", ("t", 0), f"in partitions, 't': {PLACE}"),
    ("elect_leaders", {"t": [0]}, f"in partitions, 't': {PLACE}"),
    ("elect_leaders", [True], f"in partitions, True: {PLACE}"),
    ("elect_leaders", [("t", True)], "partition index True: a whole number is expected"),
    ("describe_log_dirs", 1, "broker ids 1: a list of them is expected"),
    ("describe_log_dirs", "1", "broker ids '1': a list of them is expected"),
    ("describe_log_dirs", ["1"], "in broker ids, '1': a whole number is expected"),
    ("replica_status", None, "replicas None: a list of them is expected"),
    ("replica_status", [("t", 0)], f"in replicas, ('t', 0): {REPLICA}"),
    ("replica_status", ["t01"], f"in replicas, 't01': {REPLICA}"),
    ("replica_status", [("t", 0, 1.0)], "broker id 1.0: a whole number is expected"),
    ("replica_end_offsets", [("t", 0, "1")], "broker id '1': a whole number is expected"),
])  # fmt: skip
async def test_calls_take_what_they_say_and_send_nothing_else(
    nursery: trio.Nursery, method: str, argument: object, said: str
) -> None:
    async def answer(asked: Asked) -> Any:
        raise AssertionError("nothing is sent")

    peer = await Peer(answer, served()).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
            await getattr(admin, method)(argument)
        with pytest.raises(TypeError, match=r"^keys 'flush\.ms': a list of them"):
            await admin.describe_configs([ALL], keys="flush.ms")
        with pytest.raises(TypeError, match=r"^election_type 'PREFERRED': an ElectionType is expected"):
            await admin.elect_leaders(election_type=name)
    assert not peer.asked


def test_whatever_can_be_gone_through_will_do() -> None:
    def letters() -> Iterator[str]:
        yield from "ab"

    for items in (("a", "b"), {"a": 1, "b": 2}, letters()):
        assert checked_items("topics", items, str) == ["a", "b"]
