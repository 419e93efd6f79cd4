"""Scenarios of odd requests about offsets of share groups, which `record_share.py` sends to a real Apache Kafka 4.3
(README.md)."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.golden.coordinators.share_odd_requests import ANY_ASSIGNMENT, describe
from tests.golden.coordinators.share_script import ACCEPT, AFTER_INITIALIZATION_MS, RELEASE, A, Script

Offsets = Sequence[tuple[int, int]]


def offset_scenarios() -> Iterator[tuple[str, Script]]:
    """All of them by name."""
    yield "share-odd-offsets", _offsets()
    yield "share-odd-deletions", _deletions()
    yield "share-offsets-of-no-group", _offsets_of_no_group()


def alter(script: Script, *topics: tuple[str, Offsets], group: str = "g~", at: str | None = None) -> None:
    shown = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "start_offset": offset} for index, offset in offsets],
        }
        for name, offsets in topics
    ]
    script.ask("alter_share_group_offsets", 0, {"group_id": group, "topics": shown}, at=at or f"group:{group}")


def delete(script: Script, *names: str, group: str = "g~", at: str | None = None) -> None:
    topics = [{"topic_name": name} for name in names]
    script.ask("delete_share_group_offsets", 0, {"group_id": group, "topics": topics}, at=at or f"group:{group}")


def _offsets() -> Script:
    script = Script("Offsets of odd partitions, topics and groups").begin(("t~", 2), ("u~", 1))
    script.produce(*"abcde")
    script.join()
    script.first_fetch()
    script.ack((0, 1, [ACCEPT]))
    script.fetch(epoch=-1, topics=[])
    wanted: list[Any] = [
        [{"topic_name": "t~", "partitions": []}],
        [{"topic_name": "t~", "partitions": [0, 0, 1, -1, 2]}],
        [{"topic_name": "t~", "partitions": [0]}, {"topic_name": "t~", "partitions": [1]}],
        [{"topic_name": "", "partitions": [0]}, {"topic_name": "u~", "partitions": [0]}],
        [{"topic_name": "T~", "partitions": [0]}],
        [{"topic_name": "__consumer_offsets", "partitions": [0]}],
    ]
    wanted += [
        [{"topic_name": "t~", "partitions": [0, 0, 2]}],
        [{"topic_name": "t~", "partitions": []}, {"topic_name": "u~", "partitions": [0]}],
        [{"topic_name": "t~", "partitions": [0]}, {"topic_name": "t~", "partitions": [0, 1]}],
        [{"topic_name": "nope~", "partitions": []}, {"topic_name": "u~", "partitions": [0]}],
        [{"topic_name": "nope~", "partitions": [-1, 0, 0]}],
        [],
    ]
    for topics in wanted:
        script.offsets(topics)
    script.offsets(wanted[1], version=0)
    script.offsets(group="")
    ask = script.ask
    ask("describe_share_group_offsets", 1, {"groups": []}, at="group:g~")
    two = [{"group_id": "g~", "topics": None}, {"group_id": "g~", "topics": wanted[5]}]
    ask("describe_share_group_offsets", 1, {"groups": two}, at="group:g~", poll=True)
    ask("describe_share_group_offsets", 1, {"groups": two[:1]}, at="other:group:g~")
    ask("describe_share_group_offsets", 1, {"groups": two[1:]}, at="other:group:g~")
    script.sleep(4_000)
    _alterations(script)
    return script


def _alterations(script: Script) -> None:
    alter(script, ("t~", [(0, 1)]))
    script.beat(A, -1)
    alter(script)
    alter(script, ("t~", []))
    alter(script, ("t~", [(0, 1), (0, 3)]))
    script.offsets()
    alter(script, ("t~", [(0, 2)]), ("t~", [(1, 0)]))
    script.offsets()
    alter(script, ("t~", [(0, -1), (1, -5)]))
    script.offsets()
    alter(script, ("t~", [(0, 99), (1, 2**63 - 1)]))
    script.offsets()
    alter(script, ("t~", [(-1, 0), (2, 0), (2**31 - 1, 0)]))
    alter(script, ("t~", [(0, 4), (-1, 0)]), ("u~", [(0, 0)]))
    alter(script, ("t~", []), ("u~", [(0, 5)]))
    alter(script, ("nope~", [(-1, 0), (-1, 1)]), ("nope~", [(0, 0)]))
    script.offsets()
    alter(script, ("u~", [(0, 0)]), ("nope~", [(0, 0)]), ("", [(0, 0)]), ("__consumer_offsets", [(0, 0)]))
    script.offsets(volatile={"groups[].topics[].partitions[].lag": "any"})
    describe(script)
    alter(script, ("t~", [(0, 3)]), at="other:group:g~")
    alter(script, ("t~", [(0, 3)]))
    script.beat(A, 0, ["t~"])
    script.beat(A, 0, ["t~"], volatile={**ANY_ASSIGNMENT, "member_epoch": "any"})
    script.epochs.clear()
    script.first_fetch()


def _deletions() -> Script:
    script = Script("Offsets of some topics are deleted").begin(("t~", 2), ("u~", 1), ("v~", 1))
    script.beat(A, 0, ["t~", "u~"])
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 2, volatile=ANY_ASSIGNMENT)
    delete(script, "t~")
    script.beat(A, -1)
    delete(script)
    delete(script, "t~", at="other:group:g~")
    delete(script, "v~", "", "T~", "nope~", "__consumer_offsets")
    script.offsets()
    delete(script, "t~", "t~")
    script.offsets()
    describe(script)
    delete(script, "t~")
    script.steps.append({"step": "delete u~", "action": "delete_topics", "topics": ["u~"]})
    script.sleep(AFTER_INITIALIZATION_MS)
    delete(script, "u~")
    script.offsets()
    script.beat(A, 0, ["t~"])
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["t~"], volatile=ANY_ASSIGNMENT)
    script.offsets()
    describe(script)
    return script


def _offsets_of_no_group() -> Script:
    script = Script("Offsets of a group that does not exist yet are altered").begin(("t~", 2), ("u~", 1))
    script.produce(*"abcde")
    delete(script, "t~")
    alter(script, ("nope~", [(0, 0)]))
    describe(script)
    alter(script, ("t~", [(7, 0)]))
    describe(script)
    alter(script, ("t~", [(0, 2)]))
    describe(script)
    script.offsets()
    script.ask("list_groups", 5, {"states_filter": [], "types_filter": []}, at="group:g~", volatile={"groups": "own"})
    script.beat(A, 0, ["t~"])
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["t~"], volatile={**ANY_ASSIGNMENT, "member_epoch": "any"})
    script.first_fetch()
    script.ack((2, 3, [ACCEPT]), (4, 4, [RELEASE]))
    script.offsets()
    describe(script)
    return script
