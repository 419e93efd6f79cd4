"""Scenarios of share consumers whose group, records or connections change under them, which `record_share.py` sends to
a real Apache Kafka 4.3 (README.md)."""

from collections.abc import Iterator
from typing import Any

from tests.golden.coordinators.share_odd_offsets import alter, delete
from tests.golden.coordinators.share_odd_requests import describe
from tests.golden.coordinators.share_script import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    A,
    B,
    Script,
    batches_of,
)


def fetch_scenarios() -> Iterator[tuple[str, Script]]:
    """All of them by name."""
    yield "share-altered-under-a-session", _altered()
    yield "share-deleted-under-a-session", _deleted()
    yield "share-log-start-moves", _log_start()
    yield "share-topic-is-deleted", _topic_deleted()
    yield "share-connections", _connections()
    yield "share-released", _released()
    yield "share-without-members", _without_members()
    yield "share-odd-fetches", _odd()
    yield "share-acknowledged-in-parts", _parts()
    yield "share-renewed-in-fetches", _renewed()
    yield "share-reset-by-duration", _by_duration()
    yield "share-leader-stops", _leader_stops()
    yield "share-coordinator-stops", _coordinator_stops()


def place(acks: Any = (), partition: int = 0, topic: str = "t~") -> list[Any]:
    return [
        {
            "topic_id": f"$id:{topic}",
            "partitions": [{"partition_index": partition, "acknowledgement_batches": batches_of(acks)}],
        }
    ]


def _altered() -> Script:
    script = Script("Offsets are altered while a session still has records").begin()
    script.produce(*"abcdef")
    script.join()
    script.first_fetch(max_records=4, share_acquire_mode=1)
    script.ack((0, 0, [ACCEPT]))
    script.beat(A, -1)
    alter(script, ("t~", [(0, 3)]))
    script.ack((1, 1, [ACCEPT]))
    script.ack((2, 2, [RELEASE]))
    script.fetch(max_wait=100)
    script.fetch(max_wait=100)
    script.fetch(epoch=-1, topics=[])
    script.epochs.clear()
    script.fetch(B, until={"responses.0.partitions.0.error_code": 0})
    script.offsets()
    script.ack((3, 5, [ACCEPT]), member=B)
    script.offsets()
    alter(script, ("t~", [(0, 0)]))
    script.fetch(B)
    script.fetch(B, max_wait=100)
    return script


def _deleted() -> Script:
    script = Script("Offsets and the group are deleted while a session still has records").begin()
    script.produce(*"abcdef")
    script.join()
    script.first_fetch(max_records=4, share_acquire_mode=1)
    script.ack((0, 0, [ACCEPT]))
    script.beat(A, -1)
    delete(script, "t~")
    script.ack((1, 1, [ACCEPT]))
    script.fetch(max_wait=100)
    script.fetch(max_wait=100)
    describe(script)
    script.ask("delete_groups", 2, {"groups_names": ["g~"]}, at="group:g~")
    script.ack((2, 2, [ACCEPT]))
    script.fetch(max_wait=100)
    script.beat(A, 0, ["t~"])
    script.sleep(500)
    script.fetch(max_wait=100)
    script.fetch(epoch=-1, topics=[])
    script.epochs.clear()
    script.first_fetch(B)
    return script


def _delete_records(script: Script, offset: int) -> None:
    topics = [{"name": "t~", "partitions": [{"partition_index": 0, "offset": offset}]}]
    script.ask("delete_records", 2, {"topics": topics, "timeout": 10000}, at="leader:t~/0")


def _log_start() -> Script:
    script = Script("Records are deleted that are in flight, or that no member has got").begin()
    script.produce(*"abcd")
    script.produce(*"efgh")
    script.produce(*"ijkl")
    script.join()
    script.first_fetch(max_records=4)
    _delete_records(script, 2)
    script.ack((0, 0, [ACCEPT]))
    script.ack((3, 3, [RELEASE]))
    script.fetch(max_records=4)
    script.offsets()
    script.ack((1, 2, [ACCEPT]))
    script.offsets()
    _delete_records(script, 7)
    script.fetch(max_records=1)
    script.ack((4, 7, [RELEASE]))
    script.fetch(max_records=1)
    _delete_records(script, 12)
    script.fetch(max_wait=100)
    script.produce("m")
    script.fetch()
    script.ack((12, 12, [ACCEPT]))
    script.offsets()
    return script


def _topic_deleted() -> Script:
    script = Script("A topic is deleted while its records are in flight").begin(("t~", 1), ("u~", 1))
    script.produce(*"abc")
    script.produce(*"def", topic="u~")
    script.join(["t~", "u~"])
    both = place() + place(topic="u~")
    script.fetch(topics=both, until={"responses.1.partitions.0.error_code": 0}, max_wait=500, min_bytes=150)
    script.steps.append({"step": "delete u~", "action": "delete_topics", "topics": ["u~"]})
    script.ack(topics=place([(0, 0, [ACCEPT])], topic="u~"))
    script.ack(topics=place([(0, 0, [ACCEPT])]) + place([(1, 1, [ACCEPT])], topic="u~"))
    script.fetch(topics=place([(1, 1, [RELEASE])]), max_wait=100)
    script.fetch(topics=[], max_wait=100)
    script.fetch(topics=[], forgotten=[{"topic_id": "$id:u~", "partitions": [0]}], max_wait=100)
    script.fetch(topics=[], max_wait=100)
    return script


def _hang_up(script: Script, conn: str) -> None:
    script.steps.append({"step": f"{conn} hangs up {len(script.steps)}", "disconnect": True, "conn": conn})


def _connections() -> Script:
    script = Script("The connection of a session ends, and a session is used on another connection").begin()
    script.produce(*"abcdef")
    script.join()
    script.first_fetch(max_records=3, share_acquire_mode=1)
    _hang_up(script, A[-1])
    script.sleep(500)
    script.fetch(B)
    script.ack((0, 1, [ACCEPT]), member=B)
    script.fetch(max_wait=100)
    script.epochs[A] = 0
    script.fetch(max_wait=100)
    script.ack((2, 2, [ACCEPT]))
    other = {"conn": "other", "at": "leader:t~/0"}
    request = {"group_id": "g~", "member_id": B, "share_session_epoch": 2, "is_renew_ack": False}
    script.ask("share_acknowledge", 2, {**request, "topics": place([(2, 2, [RELEASE])])}, **other)
    script.epochs[B] = 3
    _hang_up(script, "other")
    script.sleep(300)
    script.fetch(B, max_wait=100)
    _hang_up(script, B[-1])
    script.sleep(500)
    script.fetch(B, max_wait=100)
    script.epochs[B] = 0
    script.fetch(B, max_wait=100)
    return script


def _wait_for(script: Script, member: str, **limits: Any) -> None:
    """A fetch that waits for records, and whose answer is taken later."""
    script.fetch(member, max_wait=5_000, **limits)
    script.steps[-1]["send"] = True


def _take(script: Script, member: str) -> None:
    sent = next(step for step in reversed(script.steps) if step.get("send") and step["conn"] == member[-1])
    script.steps.append({**sent, "step": f"{sent['step']} is answered", "receive": True})
    del script.steps[-1]["send"]


def _released() -> Script:
    script = Script("Whom a release wakes, while locks last").begin(**{"share.record.lock.duration.ms": "30000"})
    script.join()
    script.first_fetch()
    script.first_fetch(B)
    script.produce("a", "b", "c")
    script.fetch()
    _wait_for(script, B)
    script.ack((0, 0, [RELEASE]))
    _take(script, B)
    _wait_for(script, B)
    script.fetch(acks=[(1, 1, [RELEASE])], max_wait=0)
    _take(script, B)
    _wait_for(script, B)
    script.ack((2, 2, [ACCEPT]))
    script.produce("d")
    _take(script, B)
    script.fetch(epoch=-1, topics=[])
    script.fetch(B, max_wait=100)
    return script


def _without_members() -> Script:
    script = Script("Fetches of those who are in no group, or whose partition has no state yet").begin()
    script.produce(*"abc")
    script.fetch(max_wait=100)
    script.fetch(max_wait=100)
    script.fetch(B, group="other~", max_wait=100)
    describe(script)
    script.offsets()
    script.beat(A, 0, ["t~"])
    script.sleep(500)
    script.fetch(max_wait=500)
    script.ack((0, 0, [ACCEPT]))
    script.fetch("stranger", until={"responses.0.partitions.0.error_code": 0}, max_wait=100)
    script.ack((1, 2, [RELEASE]))
    script.fetch("stranger")
    script.beat(A, -1)
    script.ack((1, 2, [ACCEPT]), member="stranger")
    script.offsets()
    script.produce("d")
    script.fetch("stranger")
    return script


def _odd() -> Script:
    script = Script("Share requests with odd fields").begin(("t~", 2))
    script.produce(*"abcd")
    script.join()
    script.fetch("", epoch=0)
    script.fetch(" ", epoch=0, max_wait=100)
    script.fetch(epoch=0, group="", max_wait=100)
    script.fetch(epoch=0, group="x" * 300, max_wait=100)
    script.fetch(epoch=-2)
    script.fetch(epoch=-1)
    script.ack(epoch=-1)
    script.ack(epoch=-2)
    script.ack(epoch=0)
    script.ack((0, 0, [ACCEPT]), epoch=1, group="")
    script.ack((0, 0, [ACCEPT]), epoch=1, member="")
    script.first_fetch()
    script.fetch(topics=[], epoch=0, max_wait=100)
    script.epochs[A] = 1
    script.fetch(topics=place() + place(), max_wait=100)
    script.fetch(acks=[(0, 0, [ACCEPT])], forgotten=[{"topic_id": "$id:t~", "partitions": [0]}], max_wait=100)
    script.fetch(topics=place(), max_wait=100)
    script.ack((0, 0, [ACCEPT]), renew=True)
    script.ack((1, 1, [RENEW]))
    script.fetch(acks=[(1, 1, [RENEW])])
    script.fetch(acks=[(1, 1, [ACCEPT])], is_renew_ack=True)
    script.fetch(topics=[], is_renew_ack=True, max_wait=0, min_bytes=0, max_bytes=0, max_records=0)
    script.fetch(acks=[(1, 1, [ACCEPT])], is_renew_ack=True, max_wait=0, min_bytes=0, max_bytes=0, max_records=0)
    script.ack(topics=[])
    script.ack((2, 3, [GAP]))
    script.fetch(acks=[(2, 3, [GAP, ACCEPT])], max_wait=100)
    script.fetch(topics=[{"topic_id": "$id:t~", "partitions": []}], max_wait=100)
    script.ack(topics=[{"topic_id": "$id:t~", "partitions": []}])
    script.fetch(topics=place(partition=1), at="leader:t~/1", epoch=0, max_wait=100)
    script.fetch(topics=[], at="leader:t~/1", epoch=1, max_wait=100)
    script.fetch(epoch=-1, acks=[(2, 2, [7])])
    return script


def _parts() -> Script:
    script = Script("A batch is acknowledged in parts, over several requests and twice").begin()
    script.produce(*"abcdefgh")
    script.join()
    script.first_fetch(batch_size=3)
    script.ack((6, 7, [RELEASE, ACCEPT]))
    script.offsets()
    script.ack((0, 2, [ACCEPT]), (3, 3, [REJECT]))
    script.offsets()
    script.ack((3, 5, [ACCEPT]))
    script.ack((4, 5, [RELEASE]))
    script.fetch(max_records=2)
    script.ack((4, 6, [ACCEPT]))
    script.ack((4, 4, [ACCEPT]), (6, 6, [ACCEPT]))
    script.ack((5, 5, [ACCEPT]))
    script.fetch(max_wait=100)
    script.offsets()
    script.produce(*"ij")
    script.fetch(acks=[(8, 9, [ACCEPT])], max_wait=100)
    script.fetch(acks=[(8, 9, [GAP])], max_wait=100)
    script.fetch(acks=[(8, 9, [RELEASE])], max_wait=100)
    script.offsets()
    return script


def _renewed() -> Script:
    script = Script("Locks are renewed by fetches, beside other acknowledgements").begin()
    script.produce(*"abcdef")
    script.join()
    script.first_fetch()
    nothing: dict[str, Any] = {"is_renew_ack": True, "max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    script.sleep(1_300)
    script.fetch(acks=[(0, 1, [RENEW, ACCEPT]), (2, 3, [RENEW])], **nothing)
    script.ack((4, 4, [RENEW]), (5, 5, [RELEASE]), renew=True)
    script.sleep(1_100)
    script.fetch(B)
    script.ack((0, 4, [ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE]))
    script.ack((0, 0, [ACCEPT]), (2, 3, [ACCEPT]), (4, 4, [RELEASE]))
    script.fetch(B, acks=[(5, 5, [RENEW])], **nothing)
    script.fetch(B, acks=[(5, 5, [RENEW])], **{**nothing, "max_records": 1})
    script.fetch(B, acks=[(5, 5, [RENEW])], **{**nothing, "max_wait": 10})
    script.ack((5, 5, [ACCEPT]), member=B)
    script.offsets()
    return script


def _by_duration() -> Script:
    script = Script("A group begins at records of a certain age").begin(
        ("t~", 1), **{"share.auto.offset.reset": "by_duration:PT1S"}
    )
    script.produce(*"abc")
    script.sleep(1_500)
    script.produce(*"de")
    script.join()
    script.first_fetch()
    script.ack((3, 4, [ACCEPT]))
    script.offsets()
    return script


def _act(script: Script, action: str, **fields: Any) -> None:
    script.steps.append({"step": f"{len(script.steps)} {action}", "action": action, **fields})


def _leader_stops() -> Script:
    script = Script("The leader stops while records are in flight, and comes back").begin(
        ("t~", 2), **{"share.session.timeout.ms": "60000", "share.record.lock.duration.ms": "60000"}
    )
    _act(script, "wait_in_sync")
    script.produce(*"abcdef", partition=1)
    script.join()
    leader: dict[str, Any] = {"at": "leader:t~/1"}
    script.fetch(
        topics=place(partition=1),
        max_records=4,
        share_acquire_mode=1,
        until={"responses.0.partitions.0.error_code": 0},
        **leader,
    )
    script.ack(topics=place([(0, 1, [ACCEPT, RELEASE])], 1), **leader)
    _act(script, "stop", node="leader:t~/1")
    script.fetch(topics=place(partition=1), at="leader:t~/1", epoch=1)
    script.ack(topics=place([(2, 2, [ACCEPT])], 1), epoch=1, **leader)
    script.epochs[A] = 0
    script.fetch(topics=place(partition=1), until={"responses.0.partitions.0.error_code": 0}, **leader)
    script.ack(topics=place([(1, 2, [ACCEPT])], 1), **leader)
    script.offsets([{"topic_name": "t~", "partitions": [1]}])
    _act(script, "start", node="leader:t~/1")
    _act(script, "wait_brokers", count=3)
    _act(script, "wait_in_sync")
    script.fetch(topics=place(partition=1), epoch=0, at="back:leader:t~/1", max_wait=100)
    script.ack(topics=place([(3, 3, [ACCEPT])], 1), **leader)
    script.fetch(topics=[], max_wait=100, **leader)
    return script


def _coordinator_stops() -> Script:
    script = Script("The coordinator of the group stops, and comes back")
    script.steps.append({"step": "pick", "action": "pick", "spec": "group:g~"})
    script.begin(("t~", 1), **{"share.session.timeout.ms": "60000"})
    _act(script, "wait_in_sync")
    script.produce(*"abcdef")
    script.join()
    script.beat(B, 0, ["t~"], volatile={"assignment": "any"})
    script.first_fetch(max_records=2, share_acquire_mode=1)
    script.ack((0, 0, [ACCEPT]))
    describe(script)
    _act(script, "stop", node="group:g~")
    describe(script, volatile={"groups[].members[].assignment": "any"})
    script.beat(A, 3, volatile={"assignment": "any", "member_epoch": [3, 4]})
    script.beat(B, 4, volatile={"assignment": "any"})
    script.beat(B, 9)
    script.ack((1, 1, [ACCEPT]))
    script.offsets()
    script.beat(B, -1)
    describe(script, volatile={"groups[].members[].member_epoch": [3, 4, 5]})
    _act(script, "start", node="group:g~")
    _act(script, "wait_brokers", count=3)
    _act(script, "wait_in_sync")
    script.beat(A, 4, at="back:group:g~")
    script.fetch(max_wait=100)
    return script
