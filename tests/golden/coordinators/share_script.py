"""The steps of a scenario of share groups, as `record_share.py` sends them to a real Apache Kafka 4.3 (README.md).

Steps are in the form of the recordings, without answers: `~` is the suffix of a run, `$id:TOPIC` a topic's id.
"""

from collections.abc import Sequence
from typing import Any

Step = dict[str, Any]
KEYS = {
    "produce": 0,
    "offset_commit": 8,
    "offset_fetch": 9,
    "find_coordinator": 10,
    "join_group": 11,
    "heartbeat": 12,
    "leave_group": 13,
    "sync_group": 14,
    "describe_groups": 15,
    "list_groups": 16,
    "create_topics": 19,
    "delete_records": 21,
    "init_producer_id": 22,
    "add_partitions_to_txn": 24,
    "end_txn": 26,
    "describe_configs": 32,
    "alter_configs": 33,
    "create_partitions": 37,
    "delete_groups": 42,
    "incremental_alter_configs": 44,
    "offset_delete": 47,
    "alter_client_quotas": 49,
    "consumer_group_heartbeat": 68,
    "consumer_group_describe": 69,
    "list_config_resources": 74,
    "share_group_heartbeat": 76,
    "share_group_describe": 77,
    "share_fetch": 78,
    "share_acknowledge": 79,
    "initialize_share_group_state": 83,
    "read_share_group_state": 84,
    "write_share_group_state": 85,
    "delete_share_group_state": 86,
    "read_share_group_state_summary": 87,
    "streams_group_heartbeat": 88,
    "streams_group_describe": 89,
    "describe_share_group_offsets": 90,
    "alter_share_group_offsets": 91,
    "delete_share_group_offsets": 92,
}
A, B = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
AFTER_INITIALIZATION_MS = 500
LOCK_MS = 2_000


class Script:
    """The steps of one scenario, with the topic `t~` (partition 0 on all brokers) and the group `g~`."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.steps: list[Step] = []
        self.epochs: dict[str, int] = {}
        self._count = 0

    def ask(self, api: str, version: int, request: Any, *, at: Any = None, **more: Any) -> None:
        self._count += 1
        step = {"step": f"{self._count} {api}", "api": api, "key": KEYS[api], "version": version, "request": request}
        if at is not None:
            step["at"] = at
        self.steps.append({**step, **more})

    def sleep(self, milliseconds: int) -> None:
        self._count += 1
        self.steps.append({"step": f"{self._count} sleep", "action": "sleep", "ms": milliseconds})

    def begin(self, *topics: tuple[str, int], **configs: str) -> "Script":
        """Topics with their partitions, the configs of the group, and its coordinator."""
        self.ask(
            "find_coordinator",
            4,
            {"key_type": 0, "coordinator_keys": ["g~"]},
            until={"coordinators.0.error_code": 0},
            volatile={"coordinators[].node_id": "nonneg"},
        )
        places = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        self.ask(
            "create_topics",
            7,
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": -1,
                        "replication_factor": -1,
                        "assignments": [
                            {"partition_index": index, "broker_ids": places[index % 3]} for index in range(count)
                        ],
                        "configs": [],
                    }
                    for name, count in topics or [("t~", 1)]
                ],
                "timeout": 15000,
                "validate_only": False,
            },
            volatile={"topics[].configs": "any"},
        )
        self._count += 1
        names = [name for name, _ in topics or [("t~", 1)]]
        self.steps.append({"step": f"{self._count} wait", "action": "wait_topics", "topics": names})
        for name, value in {"share.auto.offset.reset": "earliest", **configs}.items():
            self.config(name, value)
        return self

    def config(self, name: str, value: str) -> None:
        change = {"name": name, "config_operation": 0, "value": value}
        resource = {"resource_type": 32, "resource_name": "g~", "configs": [change]}
        self.ask("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})

    def produce(
        self,
        *values: str,
        topic: str = "t~",
        partition: int = 0,
        transactional_id: str | None = None,
        **fields: Any,
    ) -> None:
        """One batch of records."""
        batch = {
            "records": [{"key": None, "value": value} for value in values],
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "transactional": transactional_id is not None,
            **fields,
        }
        data = [{"index": partition, "records": {"batches": [batch]}}]
        request = {"transactional_id": transactional_id, "acks": -1, "timeout": 10000}
        self.ask(
            "produce",
            11,
            {**request, "topic_data": [{"name": topic, "partition_data": data}]},
            at=f"leader:{topic}/{partition}",
        )

    def beat(self, member: str, epoch: int, topics: Sequence[str] | None = None, **more: Any) -> None:
        request = {
            "group_id": more.pop("group", "g~"),
            "member_id": member,
            "member_epoch": epoch,
            "rack_id": more.pop("rack", None),
            "subscribed_topic_names": topics,
        }
        at = more.pop("at", f"group:{request['group_id']}")
        self.ask("share_group_heartbeat", 1, request, at=at, **more)

    def join(self, topics: Sequence[str] = ("t~",)) -> None:
        """Member A joins alone, and its partitions are initialized."""
        self.beat(A, 0, list(topics))
        self.sleep(AFTER_INITIALIZATION_MS)
        self.beat(A, 2, volatile={"assignment": "any"})

    def fetch(
        self,
        member: str = A,
        acks: Sequence[tuple[int, int, Sequence[int]]] = (),
        *,
        epoch: int | None = None,
        version: int = 2,
        topics: Any = None,
        forgotten: Any = None,
        at: Any = "leader:t~/0",
        group: str = "g~",
        until: Any = None,
        **limits: Any,
    ) -> None:
        """ShareFetch; the session's epoch counts by itself."""
        expected = self.epochs.get(member, 0)
        used = expected if epoch is None else epoch
        if topics is None:
            named = [
                {
                    "topic_id": "$id:t~",
                    "partitions": [{"partition_index": 0, "acknowledgement_batches": batches_of(acks)}],
                }
            ]
            topics = named if acks or used == 0 else []
        request = {
            "group_id": group,
            "member_id": member,
            "share_session_epoch": used,
            "max_wait": 300,
            "min_bytes": 1,
            "max_bytes": 1048576,
            "max_records": 100,
            "batch_size": 100,
            **({"share_acquire_mode": 0, "is_renew_ack": False} if version >= 2 else {}),
            **limits,
            "topics": topics,
            "forgotten_topics_data": forgotten or [],
        }
        more = {"until": until} if until else {}
        self.ask("share_fetch", version, request, at=at, conn=member[-1:], **more)
        if epoch is None:
            self.epochs[member] = expected + 1

    def first_fetch(self, member: str = A, **limits: Any) -> None:
        """The first fetch of a session, repeated until the share partition is loaded."""
        self.fetch(member, until={"responses.0.partitions.0.error_code": 0}, **limits)

    def ack(
        self,
        *acks: tuple[int, int, Sequence[int]],
        member: str = A,
        epoch: int | None = None,
        version: int = 2,
        topics: Any = None,
        renew: bool = False,
        at: Any = "leader:t~/0",
        group: str = "g~",
    ) -> None:
        """ShareAcknowledge."""
        expected = self.epochs.get(member, 0)
        place = {"partition_index": 0, "acknowledgement_batches": batches_of(acks)}
        request = {
            "group_id": group,
            "member_id": member,
            "share_session_epoch": expected if epoch is None else epoch,
            **({"is_renew_ack": renew} if version >= 2 else {}),
            "topics": [{"topic_id": "$id:t~", "partitions": [place]}] if topics is None else topics,
        }
        self.ask("share_acknowledge", version, request, at=at, conn=member[-1:])
        if epoch is None:
            self.epochs[member] = expected + 1

    def offsets(self, topics: Any = None, version: int = 1, group: str = "g~", **more: Any) -> None:
        request = {"groups": [{"group_id": group, "topics": topics}]}
        group = group or "g~"
        self.ask("describe_share_group_offsets", version, request, at=f"group:{group}", poll=True, **more)


def batches_of(acks: Sequence[tuple[int, int, Sequence[int]]]) -> list[Any]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)} for first, last, types in acks
    ]
