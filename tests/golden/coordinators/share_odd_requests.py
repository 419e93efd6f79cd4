"""Scenarios of odd requests about members of share groups, which `record_share.py` sends to a real Apache
Kafka 4.3 (README.md)."""

from collections.abc import Iterator
from typing import Any

from tests.golden.coordinators.share_script import (
    AFTER_INITIALIZATION_MS,
    A,
    B,
    Script,
)

ANY_ASSIGNMENT = {"assignment": "any"}


def odd_scenarios() -> Iterator[tuple[str, Script]]:
    """All of them by name."""
    yield "share-odd-heartbeats", _heartbeats()
    yield "share-epochs", _epochs()
    yield "share-full-group", _full()
    yield "share-topics-come-and-go", _topics()
    yield "share-group-of-another-type", _types()


def describe(script: Script, *groups: str, at: str = "group:g~", **more: Any) -> None:
    request = {"group_ids": list(groups) or ["g~"], "include_authorized_operations": False}
    script.ask("share_group_describe", 1, request, at=at, **more)


def find(script: Script, group: str) -> None:
    script.ask(
        "find_coordinator",
        4,
        {"key_type": 0, "coordinator_keys": [group]},
        until={"coordinators.0.error_code": 0},
        volatile={"coordinators[].node_id": "nonneg"},
    )


def _heartbeats() -> Script:
    script = Script("Heartbeats with odd fields").begin(("t~", 2))
    script.beat("", -1)
    script.beat(" ", -1)
    script.beat(A, 0, ["t~"], rack="\t")
    script.beat(A, -1, rack="")
    script.beat(A, -1)
    script.beat(A, 1)
    script.beat(A, 0, ["T~"])
    script.beat(A, 0, ["t~"])
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 3, rack="r1", volatile=ANY_ASSIGNMENT)
    script.beat(A, 3, rack="r2", volatile=ANY_ASSIGNMENT)
    describe(script)
    script.beat(A, 3, ["t~", "T~", "t~", ""], volatile=ANY_ASSIGNMENT)
    describe(script)
    script.beat(A, 4, [" "], volatile=ANY_ASSIGNMENT)
    script.beat(A, 5, ["__consumer_offsets"], volatile=ANY_ASSIGNMENT)
    script.beat(A, 6, ["t~/../x", "x" * 300], volatile=ANY_ASSIGNMENT)
    describe(script)
    script.beat(B, -1)
    script.beat(B, 7)
    script.beat(B, -2)
    script.beat(A, -1, ["t~"], rack="r7")
    describe(script)
    script.ask(
        "share_group_heartbeat",
        1,
        {"group_id": "g~", "member_id": A, "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t~"]},
        at="other:group:g~",
    )
    for group in (" ", "g~ ", "\u00e9~", "x" * 300 + "~"):
        find(script, group)
        script.beat(A, 0, ["t~"], group=group, volatile=ANY_ASSIGNMENT)
        describe(script, group, at=f"group:{group}", volatile={"groups[].members[].assignment": "any"})
    return script


def _epochs() -> Script:
    script = Script("Epochs of a member: the last one, the one before, and joining again").begin(("t~", 1), ("u~", 1))
    script.join()
    script.beat(A, 3)
    script.beat(A, 2)
    script.beat(A, 1)
    script.beat(A, 4)
    script.beat(A, 2, ["u~"], volatile=ANY_ASSIGNMENT)
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 3, volatile=ANY_ASSIGNMENT)
    script.beat(A, 4, volatile=ANY_ASSIGNMENT)
    describe(script)
    script.beat(A, 0, ["u~"])
    script.beat(A, 0, ["t~"])
    script.beat(A, 0, None)
    describe(script)
    script.beat(A, 0, ["t~"], client_id="another")
    script.beat(A, 0, ["t~"], rack="r5")
    describe(script)
    script.beat(A, 2**31 - 1)
    script.beat(A, -(2**31))
    script.beat(A, -1)
    script.beat(A, 0, ["t~"], volatile=ANY_ASSIGNMENT)
    describe(script)
    return script


def _full() -> Script:
    script = Script("As many members as there may be, more than partitions").begin(("t~", 3), ("u~", 1))
    topics = {"m1": ["t~"], "m2": ["t~"], "m3": ["t~", "u~"], "m4": ["u~"], "m5": ["t~", "u~"]}

    def beat(member: str, epoch: int = 0) -> None:
        # Which partitions it gets depends on the id of the topic.
        script.beat(member, epoch, topics[member] if epoch == 0 else None, volatile=ANY_ASSIGNMENT)

    beat("m1")
    script.sleep(AFTER_INITIALIZATION_MS)
    for member in ("m2", "m3", "m4"):
        beat(member)
    script.sleep(AFTER_INITIALIZATION_MS)
    for epoch in (0, 3, -1):
        beat("m5", epoch)
    for member in ("m1", "m2", "m3", "m4"):
        beat(member)
    any_assignment = {"groups[].members[].assignment": "any"}
    describe(script, volatile=any_assignment)
    script.beat("m2", -1)
    for member in ("m1", "m3", "m4", "m5"):
        beat(member)
    describe(script, volatile=any_assignment)
    script.sleep(4_000)
    describe(script)
    script.beat("m1", 9)
    beat("m5")
    describe(script, volatile=any_assignment)
    return script


def _create(script: Script, name: str, count: int = 1) -> None:
    places = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    assignments = [{"partition_index": index, "broker_ids": places[index]} for index in range(count)]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": []}
    request = {"topics": [topic], "timeout": 15000, "validate_only": False}
    script.ask("create_topics", 7, request, volatile={"topics[].configs": "any"})
    script.steps.append({"step": f"wait for {name}", "action": "wait_topics", "topics": [name]})


def _topics() -> Script:
    script = Script("A member's topics are created, grow, are deleted and created again").begin(("t~", 1))
    keep = {"share.session.timeout.ms": "20000"}
    for name, value in keep.items():
        script.config(name, value)
    script.beat(A, 0, ["u~", "t~"])
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 2, volatile=ANY_ASSIGNMENT)
    describe(script)
    _create(script, "u~")
    script.beat(A, 3, volatile={**ANY_ASSIGNMENT, "member_epoch": [3, 4]})
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["u~", "t~"], until={"member_epoch": 5})
    describe(script)
    growth = {"name": "t~", "count": 2, "assignments": [{"broker_ids": [2, 3, 1]}]}
    script.ask("create_partitions", 3, {"topics": [growth], "timeout": 10000, "validate_only": False})
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["u~", "t~"], volatile={**ANY_ASSIGNMENT, "member_epoch": [6, 7]})
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["u~", "t~"], until={"member_epoch": 7})
    describe(script)
    script.offsets()
    script.steps.append({"step": "delete u~", "action": "delete_topics", "topics": ["u~"]})
    script.beat(A, 0, ["u~", "t~"], until={"member_epoch": 8})
    describe(script)
    script.offsets()
    script.offsets([{"topic_name": "u~", "partitions": [0]}])
    _create(script, "u~")
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["u~", "t~"], volatile={**ANY_ASSIGNMENT, "member_epoch": [9, 10]})
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["u~", "t~"], until={"member_epoch": 10})
    describe(script)
    script.steps.append({"step": "delete both", "action": "delete_topics", "topics": ["u~", "t~"]})
    script.beat(A, 0, ["u~", "t~"], until={"assignment.topic_partitions": []})
    describe(script, volatile={"groups[].group_epoch": [11, 12], "groups[].assignment_epoch": [11, 12],
                               "groups[].members[].member_epoch": [11, 12]})  # fmt: skip
    script.beat(A, -1)
    return script


def consumer_beat(script: Script, group: str, epoch: int, member: str = "c") -> None:
    request = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 5000 if epoch == 0 else -1,
        "subscribed_topic_names": ["t~"] if epoch == 0 else None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [] if epoch == 0 else None,
    }
    script.ask("consumer_group_heartbeat", 1, request, at=f"group:{group}", volatile=ANY_ASSIGNMENT)


def streams_beat(script: Script, group: str, epoch: int) -> None:
    subtopology = {"subtopology_id": "0", "source_topics": ["t~"]}
    request = {
        "group_id": group,
        "member_id": "s",
        "member_epoch": epoch,
        "rebalance_timeout": 5000,
        "topology": {"epoch": 1, "subtopologies": [subtopology]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        "client_tags": [],
    }
    script.ask("streams_group_heartbeat", 0, request, at=f"group:{group}")


def classic_join(script: Script, group: str) -> None:
    script.ask(
        "join_group",
        9,
        {
            "group_id": group,
            "session_timeout": 10000,
            "rebalance_timeout": 5000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": {"subscription": {"version": 1, "topics": ["t~"]}}}],
            "reason": None,
        },
        at=f"group:{group}",
        volatile={"member_id": "any"},
    )


def _types() -> Script:
    script = Script("Groups of one type, and requests for another").begin()
    script.join()
    consumer_beat(script, "g~", 0)
    consumer_beat(script, "g~", 1)
    streams_beat(script, "g~", 0)
    classic_join(script, "g~")
    script.beat(A, -1)
    consumer_beat(script, "g~", 0)
    streams_beat(script, "g~", 0)
    classic_join(script, "g~")
    describe(script)
    find(script, "c~")
    consumer_beat(script, "c~", 0)
    for _ in range(2):
        script.beat(A, 0, ["t~"], group="c~")
        script.beat(A, 1, group="c~")
        script.beat(A, -1, group="c~")
        describe(script, "c~", at="group:c~")
        script.offsets(group="c~")
        script.offsets([{"topic_name": "t~", "partitions": [0]}], group="c~")
        change = {"topic_name": "t~", "partitions": [{"partition_index": 0, "start_offset": 0}]}
        script.ask("alter_share_group_offsets", 0, {"group_id": "c~", "topics": [change]}, at="group:c~")
        script.ask("delete_share_group_offsets", 0, {"group_id": "c~", "topics": [{"topic_name": "t~"}]}, at="group:c~")
        consumer_beat(script, "c~", -1)
    script.ask("delete_groups", 2, {"groups_names": ["c~"]}, at="group:c~")
    script.beat(A, 0, ["t~"], group="c~")
    script.beat(A, -1, group="c~")
    script.ask("delete_groups", 2, {"groups_names": ["c~", "g~"]}, at="group:c~",
               volatile={"results[].error_code": [0, 16]})  # fmt: skip
    return script
