"""Scenarios of share requests that no client sends, which `record_share.py` sends to a real Apache Kafka 4.3
(README.md)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.golden.coordinators.share_script import (
    ACCEPT,
    AFTER_INITIALIZATION_MS,
    GAP,
    LOCK_MS,
    REJECT,
    RELEASE,
    RENEW,
    A,
    B,
    Script,
    batches_of,
)

_LAST = 2**63 - 1
Acks = Sequence[tuple[int, int, Sequence[int]]]


def hostile_scenarios() -> Iterator[tuple[str, Script]]:
    """All of them by name."""
    yield "share-hostile-ranges", _ranges()
    yield "share-hostile-limits", _limits()
    yield "share-hostile-sessions", _sessions()
    yield "share-hostile-partitions", _partitions()
    yield "share-expired-acknowledgements", _expired()
    yield "share-hostile-state", _state()
    yield "share-hostile-state-batches", _state_batches()
    yield "share-hostile-members", _members()
    yield "share-byte-rate", _byte_rate()


def place(acks: Acks, partition: int = 0) -> dict[str, Any]:
    return {"partition_index": partition, "acknowledgement_batches": batches_of(acks)}


def topics(*places: Mapping[str, Any], topic: str = "t~") -> list[Any]:
    return [{"topic_id": f"$id:{topic}", "partitions": list(places)}]


def _ranges() -> Script:
    script = Script("Ranges of offsets that nobody acquired").begin()
    script.produce(*"abcd")
    script.produce(*"efgh")
    script.join()
    script.first_fetch(max_records=1)
    script.ack((0, _LAST, [ACCEPT]))
    script.ack((_LAST, _LAST, [ACCEPT]))
    script.ack((-(2**63), _LAST, [ACCEPT]))
    script.ack((-(2**63), -1, [ACCEPT]))
    script.ack((-1, -1, [ACCEPT]))
    script.ack((0, 4, [ACCEPT]))
    script.ack((4, 4, [ACCEPT]))
    script.ack((2, 5, [ACCEPT] * 4))
    script.ack((0, 3, [ACCEPT, 9, ACCEPT, ACCEPT]))
    script.ack((0, 3, [ACCEPT] * 5))
    script.ack((0, 0, [ACCEPT]), (0, 0, [RELEASE]))
    script.ack((1, 1, [ACCEPT]), (0, 0, [RELEASE]))
    script.ack((0, 1, [ACCEPT]), (1, 1, [RELEASE]))
    script.fetch(max_records=4)
    script.ack((0, 7, [RELEASE]))
    script.ack((0, 7, [RELEASE]))
    script.fetch()
    script.ack((3, 4, [ACCEPT]), (4, 5, [REJECT]))
    script.ack((3, 4, [ACCEPT, GAP]))
    script.fetch(max_wait=100)
    script.ack((3, 3, [ACCEPT]))
    script.ack((0, 7, [ACCEPT]))
    script.ack((5, 7, [ACCEPT]), (0, 2, [ACCEPT]))
    script.ack((0, 2, [ACCEPT]), (5, 7, [ACCEPT]))
    script.ack((0, 7, [ACCEPT]))
    script.offsets()
    return script


def _limits() -> Script:
    script = Script("Limits of a fetch below zero, or of no sense").begin()
    script.produce(*"abcd")
    script.join()
    script.first_fetch(max_records=1, share_acquire_mode=1)
    script.fetch(max_records=0, max_wait=100)
    script.fetch(max_records=-1, max_wait=100)
    script.fetch(max_bytes=0, max_wait=100)
    script.fetch(max_bytes=-1, max_wait=100)
    script.fetch(min_bytes=-1, max_wait=100, max_records=1, share_acquire_mode=1)
    script.fetch(max_wait=-1, max_records=1, share_acquire_mode=1)
    script.fetch(batch_size=0, max_records=1, share_acquire_mode=1, max_wait=100)
    script.fetch(batch_size=-5, max_records=1, share_acquire_mode=1, max_wait=100)
    script.fetch(share_acquire_mode=7, max_wait=100)
    script.fetch(share_acquire_mode=-1, max_wait=100)
    return script


def _sessions() -> Script:
    script = Script("Sessions of another epoch, another member, another group").begin()
    script.produce(*"abcd")
    script.join()
    script.ack((0, 0, [ACCEPT]), epoch=0)
    script.ack((0, 0, [ACCEPT]), epoch=5)
    script.ack((0, 0, [ACCEPT]), epoch=-1)
    script.fetch(epoch=-1, topics=[])
    script.fetch(epoch=3)
    script.first_fetch()
    for epoch in (-2, -(2**31), 2**31 - 1, 3):
        script.fetch(epoch=epoch)
        script.ack((0, 0, [ACCEPT]), epoch=epoch)
    script.ack((0, 0, [ACCEPT]), member=B, epoch=1)
    script.ack((0, 0, [ACCEPT]), group="h~", epoch=1)
    script.fetch(epoch=0, acks=[(0, 0, [ACCEPT])])
    script.fetch(acks=[(0, 0, [9])], max_wait=100)
    script.fetch(acks=[(0, 0, [RENEW])], max_wait=100)
    script.fetch(acks=[(0, 9, [ACCEPT])], max_wait=100)
    script.fetch(is_renew_ack=True, max_wait=0, min_bytes=0, max_bytes=0, max_records=0)
    script.fetch("", epoch=0)
    script.fetch(" ", epoch=0)
    script.fetch(group="", epoch=0, max_wait=100)
    script.ack((0, 0, [ACCEPT]), member="", epoch=1)
    script.ack(epoch=-1, topics=topics(place([(0, 9, [ACCEPT])])))
    script.fetch(epoch=0)
    return script


def _partitions() -> Script:
    script = Script("Partitions that are named twice, are not there, or not in the session").begin(("t~", 1), ("u~", 1))
    script.produce(*"abcd")
    script.join()
    script.first_fetch()
    script.ack(topics=topics(place([(0, 0, [ACCEPT])]), place([(1, 1, [ACCEPT])])))
    script.ack(topics=topics(place([(0, 1, [RELEASE])]), place([])))
    script.ack(topics=[*topics(place([(0, 0, [RELEASE])])), *topics(place([(1, 1, [RELEASE])]))])
    script.ack(topics=topics(place([(0, 0, [ACCEPT])], -1)))
    script.ack(topics=topics(place([(0, 0, [ACCEPT])], 2**31 - 1)))
    script.ack(topics=topics(place([(0, 0, [ACCEPT])]), topic="u~"))
    script.ack(topics=topics(place([(2, 2, [ACCEPT])]), place([(0, 0, [ACCEPT])], 3)))
    unknown = "00000000-0000-0000-0000-000000000000"
    script.ack(topics=[{"topic_id": unknown, "partitions": [place([(0, 0, [ACCEPT])])]}])
    script.ack(topics=topics())
    script.ack(topics=[])
    script.fetch(topics=topics(place([]), place([])), max_wait=100)
    script.fetch(topics=topics(place([], -1)), max_wait=100)
    script.fetch(forgotten=[{"topic_id": "$id:t~", "partitions": [0, 0, 7, -1]}], max_wait=100)
    script.fetch(topics=topics(place([])), forgotten=[{"topic_id": "$id:t~", "partitions": [0]}], max_wait=100)
    script.ack((3, 3, [ACCEPT]))
    script.fetch(topics=topics(place([(2, 3, [ACCEPT])])), max_wait=100)
    return script


def _expired() -> Script:
    script = Script("Acknowledgements that come when locks have expired").begin(**{"share.delivery.count.limit": "2"})
    script.produce(*"abcd")
    script.join()
    script.first_fetch()
    script.ack((0, 1, [RENEW]), renew=True)
    script.sleep(LOCK_MS + 400)
    script.ack((0, 0, [RENEW]), renew=True)
    script.ack((0, 3, [ACCEPT]))
    script.ack((0, 0, [RELEASE]), (3, 3, [ACCEPT]))
    script.fetch(B)
    script.ack((0, 3, [ACCEPT]))
    script.ack((0, 1, [ACCEPT]), member=B)
    script.sleep(LOCK_MS + 400)
    script.ack((2, 3, [ACCEPT]), member=B)
    script.fetch(max_wait=100)
    # Each of two locks expires by itself, and whether the second write has the start offset behind the first one is a
    # matter of time.
    script.offsets(volatile={"groups[].topics[].partitions[].start_offset": [2, 3]})
    return script


class StateScript(Script):
    """A script with requests to the share coordinator."""

    key = "g~:$id64:t~:0"

    def begin_state(self) -> "StateScript":
        self.begin(("t~", 2))
        self.ask(
            "find_coordinator",
            6,
            {"key_type": 2, "coordinator_keys": [self.key]},
            until={"coordinators.0.error_code": 0},
            volatile={"coordinators[].node_id": "nonneg"},
        )
        return self

    def one(self, api: str, version: int = 0, **fields: Any) -> None:
        """A request about one partition."""
        topic_id, group = fields.pop("topic_id", "$id:t~"), fields.pop("group", "g~")
        key, more = fields.pop("key", self.key), fields.pop("more", {})
        partition = {"partition": fields.pop("partition", 0), **fields}
        self.many(api, [{"topic_id": topic_id, "partitions": [partition]}], version, group, key, **more)

    def many(
        self,
        api: str,
        named: Sequence[Mapping[str, Any]],
        version: int = 0,
        group: str = "g~",
        key: str | None = None,
        **more: Any,
    ) -> None:
        at = f"share:{key or self.key}"
        self.ask(api, version, {"group_id": group, "topics": list(named)}, at=at, **more)

    def write(self, *batches: tuple[int, int, int, int], **fields: Any) -> None:
        names = "first_offset", "last_offset", "delivery_state", "delivery_count"
        values = {"state_epoch": 0, "leader_epoch": 0, "start_offset": -1, "delivery_complete_count": 0, **fields}
        shown = [dict(zip(names, batch, strict=True)) for batch in batches]
        self.one("write_share_group_state", 1, state_batches=shown, **values)

    def show(self, leader_epoch: int = 0) -> None:
        self.one("read_share_group_state", leader_epoch=leader_epoch)
        self.one("read_share_group_state_summary", 1, leader_epoch=leader_epoch)


def _state() -> Script:
    script = StateScript("Requests to the share coordinator about nothing that exists").begin_state()
    nothing = "00000000-0000-0000-0000-000000000000"
    unknown = "00000000-0000-0000-0000-00000000002a"
    places = [
        (nothing, "AAAAAAAAAAAAAAAAAAAAAA", 0),
        (unknown, "AAAAAAAAAAAAAAAAAAAAKg", 0),
        ("$id:t~", "$id64:t~", 7),
        ("$id:t~", "$id64:t~", 2**31 - 1),
    ]
    for topic_id, encoded, partition in places:
        where: dict[str, Any] = {"topic_id": topic_id, "partition": partition, "key": f"g~:{encoded}:{partition}"}
        script.one("initialize_share_group_state", state_epoch=0, start_offset=0, **where)
        script.one("read_share_group_state", leader_epoch=0, **where)
        script.one("read_share_group_state_summary", 1, leader_epoch=0, **where)
        script.write((0, 1, 0, 1), **where)
        script.one("delete_share_group_state", **where)
    for epoch, offset in ((-1, 0), (-5, -5), (0, -(2**63)), (2**31 - 1, 2**63 - 1), (0, 3)):
        script.one("initialize_share_group_state", state_epoch=epoch, start_offset=offset)
        script.one("read_share_group_state", leader_epoch=0)
    script.one("read_share_group_state", leader_epoch=-(2**31))
    script.one("read_share_group_state", leader_epoch=2**31 - 1)
    script.one("read_share_group_state", leader_epoch=0)
    script.one("read_share_group_state_summary", 1, leader_epoch=-7)
    script.one("delete_share_group_state")
    twice = [{"partition": 0, "state_epoch": 0, "start_offset": offset} for offset in (1, 2)]
    script.many("initialize_share_group_state", [{"topic_id": "$id:t~", "partitions": twice}])
    script.one("read_share_group_state", leader_epoch=0)
    one = {"partition": 0, "leader_epoch": 0}
    script.many("read_share_group_state", [{"topic_id": "$id:t~", "partitions": [one, one]}])
    script.many("read_share_group_state_summary", [{"topic_id": "$id:t~", "partitions": [one, one]}], 1)
    script.many("delete_share_group_state", [{"topic_id": "$id:t~", "partitions": [{"partition": 0}] * 2}])
    for group in ("", "other~"):
        key = f"{group or 'g~'}:$id64:t~:0"
        script.one("read_share_group_state", leader_epoch=0, group=group, key=key)
        script.one("delete_share_group_state", group=group, key=key)
    # There is no way to ask for the coordinator of a negative partition.
    either = {"results[].partitions[].error_code": [16, 42], "results[].partitions[].error_message": "any"}
    script.one("read_share_group_state", leader_epoch=0, partition=-1, more={"volatile": either})
    script.one("delete_share_group_state", partition=-1, more={"volatile": either})
    return script


def _state_batches() -> Script:
    script = StateScript("Batches of states that cannot be").begin_state()
    script.one("initialize_share_group_state", state_epoch=0, start_offset=0)
    script.write((5, 2, 0, 1))
    script.show()
    script.write((0, 9, 99, 1))
    script.show()
    script.write((0, 9, -1, 1))
    script.show()
    script.write((0, 9, 0, -3))
    script.show()
    script.write((-4, -2, 0, 1))
    script.show()
    script.write((0, 9, 2, 1), (3, 4, 0, 2), (3, 12, 2, 1))
    script.show()
    script.write(start_offset=-9)
    script.show()
    script.write((0, 3, 2, 1), start_offset=2**63 - 1)
    script.show()
    script.write((0, 3, 0, 1), start_offset=2)
    script.show()
    script.write(delivery_complete_count=-7)
    script.show()
    script.write(delivery_complete_count=2**31 - 1)
    script.show()
    script.write((4, 4, 1, 32767), (4, 4, 0, 1))
    script.show()
    script.write((6, 2**63 - 1, 0, 1))
    script.show()
    script.one("delete_share_group_state")
    return script


def _members() -> Script:
    script = Script("Heartbeats that no member sends").begin()
    for epoch in (-2, -(2**31), 1, 2**31 - 1):
        script.beat(A, epoch, ["t~"])
    script.beat(A, 0, ["t~", "t~"], volatile={"assignment": "any"})
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 0, ["t~"], volatile={"assignment": "any"})
    script.beat(A, -2)
    script.beat(A, 1, ["", "t~"], volatile={"assignment": "any"})
    script.beat("", 0, ["t~"])
    script.beat(B, 0, ["t~"], rack="", volatile={"assignment": "any"})
    script.beat(B, 0, ["t~"], rack=" ")
    script.ask(
        "share_group_describe",
        1,
        {"group_ids": ["g~", "g~"], "include_authorized_operations": False},
        at="group:g~",
        volatile={"groups[].members[].assignment": "any", "groups[].members[].member_epoch": "any"},
    )
    return script


def _byte_rate() -> Script:
    script = Script("Records that a quota of bytes does not let through stay acquired").begin()
    script.produce(*("x" * 1_000 for _ in range(4)))
    script.join()
    _quota(script, 400.0)
    script.fetch()
    script.fetch(B)
    script.sleep(LOCK_MS + 400)
    _quota(script, None)
    script.fetch(B)
    script.ack((0, 1, [ACCEPT]), member=B)
    _quota(script, 400.0)
    script.sleep(LOCK_MS + 400)
    script.fetch(B, [(3, 9, [ACCEPT])])
    _quota(script, None)
    return script


def _quota(script: Script, rate: float | None) -> None:
    op = {"key": "consumer_byte_rate", "value": rate or 0.0, "remove": rate is None}
    entry = {"entity": [{"entity_type": "client-id", "entity_name": "rec"}], "ops": [op]}
    script.ask("alter_client_quotas", 1, {"entries": [entry], "validate_only": False})
    script.sleep(300)
