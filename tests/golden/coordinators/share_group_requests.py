"""Scenarios of share groups and of the share coordinator, which `record_share.py` sends to a real Apache Kafka 4.3.

README.md has where the recordings come from.
"""

from collections.abc import Sequence
from typing import Any

from tests.golden.coordinators.share_script import ACCEPT, AFTER_INITIALIZATION_MS, REJECT, RELEASE, A, B, Script

_EXPIRED = dict.fromkeys(("error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval"), "any")
"""The session may have ended, because some requests take a second."""


def lag() -> Script:
    script = Script("Start offsets and lags as records are acknowledged").begin()
    script.produce(*"abcdef")
    script.join()
    script.first_fetch()
    script.offsets()
    script.ack((2, 3, [ACCEPT]))
    script.beat(A, 3, volatile=_EXPIRED)
    script.offsets()
    script.ack((0, 0, [REJECT]))
    script.beat(A, 3, volatile=_EXPIRED)
    script.offsets()
    script.ack((1, 1, [ACCEPT]))
    script.beat(A, 3, volatile=_EXPIRED)
    script.offsets()
    script.offsets([{"topic_name": "t~", "partitions": [0, 8]}])
    script.offsets([], group="g~")
    script.ack((4, 5, [RELEASE]))
    script.beat(A, 3, volatile=_EXPIRED)
    script.offsets()
    script.fetch(epoch=-1, topics=[])
    script.beat(A, 3, volatile=_EXPIRED)
    script.beat(A, -1, volatile=_EXPIRED)
    change = {"topic_name": "t~", "partitions": [{"partition_index": 0, "start_offset": 2}]}
    script.ask("alter_share_group_offsets", 0, {"group_id": "g~", "topics": [change]}, at="group:g~")
    script.offsets()
    script.ask("alter_share_group_offsets", 0, {"group_id": "", "topics": []}, at="group:g~")
    script.ask("delete_share_group_offsets", 0, {"group_id": "", "topics": []}, at="group:g~")
    script.ask("delete_share_group_offsets", 0, {"group_id": "g~", "topics": [{"topic_name": "t~"}]}, at="group:g~")
    script.offsets()
    script.ask("delete_groups", 2, {"groups_names": ["g~"]}, at="group:g~")
    script.ask("share_group_describe", 1, {"group_ids": ["g~"], "include_authorized_operations": False}, at="group:g~")
    return script


def state() -> Script:
    script = Script("The share coordinator's own APIs").begin(("t~", 2))
    key, topic = "share:g~:$id64:t~:0", "$id:t~"
    script.ask(
        "find_coordinator",
        6,
        {"key_type": 2, "coordinator_keys": ["g~:$id64:t~:0"]},
        until={"coordinators.0.error_code": 0},
        volatile={"coordinators[].node_id": "nonneg"},
    )

    def one(api: str, version: int = 0, topic_id: str = topic, group: str = "g~", **fields: Any) -> None:
        place = {"partition": fields.pop("partition", 0), **fields}
        topics = [{"topic_id": topic_id, "partitions": [place]}]
        script.ask(api, version, {"group_id": group, "topics": topics}, at=key)

    def write(version: int = 1, batches: Sequence[tuple[int, int, int, int]] = (), **fields: Any) -> None:
        names = "first_offset", "last_offset", "delivery_state", "delivery_count"
        values = {"state_epoch": 3, "leader_epoch": 0, "start_offset": -1, **fields}
        if version:
            values.setdefault("delivery_complete_count", 0)
        shown = [dict(zip(names, batch, strict=True)) for batch in batches]
        one("write_share_group_state", version, state_batches=shown, **values)

    one("read_share_group_state", leader_epoch=0)
    one("read_share_group_state_summary", 1, leader_epoch=0)
    write()
    one("delete_share_group_state")
    one("initialize_share_group_state", state_epoch=3, start_offset=-1)
    one("read_share_group_state", leader_epoch=0)
    one("read_share_group_state_summary", 1, leader_epoch=0)
    write(batches=[(0, 9, 0, 1)], start_offset=0)
    write(batches=[(3, 5, 2, 1), (7, 7, 0, 2)], delivery_complete_count=3)
    one("read_share_group_state", leader_epoch=4)
    one("read_share_group_state_summary", 1, leader_epoch=4)
    one("read_share_group_state_summary", 0, leader_epoch=4)
    one("read_share_group_state", leader_epoch=3)
    one("read_share_group_state", leader_epoch=-1)
    write(batches=[(8, 8, 0, 1)], leader_epoch=3)
    write(batches=[(8, 8, 4, 2)], leader_epoch=-1, state_epoch=-1)
    write(batches=[(8, 8, 0, 1)], leader_epoch=4, state_epoch=2)
    write(version=0, batches=[(0, 2, 2, 1)], leader_epoch=5, start_offset=4)
    one("read_share_group_state", leader_epoch=5)
    one("initialize_share_group_state", state_epoch=2, start_offset=0)
    one("initialize_share_group_state", state_epoch=4, start_offset=7)
    one("read_share_group_state_summary", 1, leader_epoch=5)
    one("read_share_group_state", leader_epoch=4)
    one("initialize_share_group_state", group="", state_epoch=4, start_offset=7)
    script.ask("read_share_group_state", 0, {"group_id": "g~", "topics": []}, at=key)
    empty = [{"topic_id": topic, "partitions": []}]
    script.ask("read_share_group_state", 0, {"group_id": "g~", "topics": empty}, at=key)
    one("delete_share_group_state")
    one("read_share_group_state", leader_epoch=5)
    one("initialize_share_group_state", state_epoch=0, start_offset=0)
    one("read_share_group_state", leader_epoch=0)
    request = {"group_id": "g~", "topics": [{"topic_id": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    script.ask("read_share_group_state", 0, request, at=f"other:{key}")
    script.ask("read_share_group_state_summary", 1, request, at=f"other:{key}")
    return script


def members() -> Script:
    script = Script("Members of a share group: subscriptions, epochs, limits, sessions").begin(("t~", 2), ("u~", 1))
    script.join()
    script.beat(A, 2)
    script.beat(A, 3, ["t~", "u~"], volatile={"assignment": "any"})
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 4, volatile={"assignment": "any"})
    script.beat(A, 5, ["u~"], volatile={"assignment": "any"})
    script.beat(A, 6, ["nope~"])
    script.beat(A, 7, [])
    script.beat(B, 0, ["u~"], volatile={"assignment": "any"})
    script.beat(B, 0, None)
    script.beat(B, 0, [])
    script.beat("third", 0, ["t~"], volatile={"assignment": "any"})
    script.beat("fourth", 0, ["t~"], rack="r9", volatile={"assignment": "any"})
    script.beat("fifth", 0, ["t~"])
    script.beat("fifth", 1)
    script.beat("x" * 36, -1)
    script.beat("x" * 37, -1)
    script.beat(" ", 0, ["t~"])
    script.beat(A, 0, ["t~"], group=" ")
    script.ask(
        "share_group_describe",
        1,
        {"group_ids": ["g~", "", "h~"], "include_authorized_operations": True},
        at="group:g~",
        volatile={"groups[].members[].assignment": "any"},
    )
    script.beat("third", -1)
    script.beat("third", -1)
    script.sleep(3_500)
    script.beat("fourth", 9)
    script.ask("share_group_describe", 1, {"group_ids": ["g~"], "include_authorized_operations": False}, at="group:g~")
    script.beat(A, -1, group="h~")
    return script


def foreign_requests() -> Script:
    script = Script("Requests of other protocols about a share group, and share requests about other groups").begin()
    script.join()
    _commit(script, "g~")
    script.ask(
        "offset_fetch", 8, {"groups": [{"group_id": "g~", "topics": None}], "require_stable": False}, at="group:g~"
    )
    script.ask(
        "offset_delete",
        0,
        {"group_id": "g~", "topics": [{"name": "t~", "partitions": [{"partition_index": 0}]}]},
        at="group:g~",
    )
    _classic_requests(script)
    script.ask(
        "find_coordinator",
        4,
        {"key_type": 0, "coordinator_keys": ["c~"]},
        until={"coordinators.0.error_code": 0},
        volatile={"coordinators[].node_id": "nonneg"},
    )
    _commit(script, "c~")
    script.beat(A, 0, ["t~"], group="c~")
    script.beat(A, -1, group="c~")
    script.ask("share_group_describe", 1, {"group_ids": ["c~"], "include_authorized_operations": False}, at="group:c~")
    change = {"topic_name": "t~", "partitions": [{"partition_index": 0, "start_offset": 2}]}
    script.ask("alter_share_group_offsets", 0, {"group_id": "c~", "topics": [change]}, at="group:c~")
    script.ask("delete_share_group_offsets", 0, {"group_id": "c~", "topics": [{"topic_name": "t~"}]}, at="group:c~")
    script.offsets(group="c~")
    return script


def _commit(script: Script, group: str) -> None:
    script.ask(
        "offset_commit",
        9,
        {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": "t~",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 1,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        },
        at=f"group:{group}",
    )


def _classic_requests(script: Script) -> None:
    script.ask(
        "sync_group",
        5,
        {
            "group_id": "g~",
            "generation_id": 1,
            "member_id": A,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        },
        at="group:g~",
    )
    script.ask(
        "heartbeat", 4, {"group_id": "g~", "generation_id": 1, "member_id": A, "group_instance_id": None}, at="group:g~"
    )
    script.ask(
        "leave_group",
        5,
        {"group_id": "g~", "members": [{"member_id": A, "group_instance_id": None, "reason": None}]},
        at="group:g~",
    )
    script.ask(
        "join_group",
        9,
        {
            "group_id": "g~",
            "session_timeout": 10000,
            "rebalance_timeout": 5000,
            "member_id": A,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": {"text": "x"}}],
            "reason": None,
        },
        at="group:g~",
    )
