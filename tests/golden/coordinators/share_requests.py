"""Scenarios of share consumers, which `record_share.py` sends to a real Apache Kafka 4.3 (README.md)."""

from collections.abc import Iterator

from tests.golden.coordinators.share_config_requests import config_scenarios
from tests.golden.coordinators.share_group_requests import foreign_requests, lag, members, state
from tests.golden.coordinators.share_hostile_requests import hostile_scenarios
from tests.golden.coordinators.share_odd_fetches import fetch_scenarios
from tests.golden.coordinators.share_odd_offsets import offset_scenarios
from tests.golden.coordinators.share_odd_requests import odd_scenarios
from tests.golden.coordinators.share_script import (
    ACCEPT,
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
from tests.golden.coordinators.share_transactions import transaction_scenarios


def scenarios() -> Iterator[tuple[str, Script]]:
    """All scenarios by name."""
    yield "share-v1", _old_versions()
    yield "share-batches", _batches()
    yield "share-two-members", _two_members()
    yield "share-acknowledgements", _acknowledgements()
    yield "share-wrong-acknowledgements", _wrong_acknowledgements()
    yield "share-locks", _locks()
    yield "share-renew", _renew()
    yield "share-delivery-limit", _delivery_limit()
    yield "share-record-limit", _record_limit()
    yield "share-most-locks", _most_locks()
    yield "share-session-rules", _sessions()
    yield "share-several-partitions", _several_partitions()
    yield "share-reset", _reset()
    yield "share-lag", lag()
    yield "share-state", state()
    yield "share-members", members()
    yield "share-foreign-requests", foreign_requests()
    yield "share-log-start", _new_member_after_close()
    yield from transaction_scenarios()
    yield from hostile_scenarios()
    yield from config_scenarios()
    yield from odd_scenarios()
    yield from offset_scenarios()
    yield from fetch_scenarios()


def _old_versions() -> Script:
    script = Script("ShareFetch and ShareAcknowledge v1").begin()
    script.produce("a", "b", "c")
    script.join()
    script.first_fetch(version=1)
    script.ack((0, 0, [ACCEPT]), (1, 1, [RELEASE]), version=1)
    script.ack((2, 2, [RENEW]), version=1)
    script.fetch(acks=[(2, 2, [REJECT])], version=1)
    script.fetch(version=1)
    script.ack(epoch=-1, version=1, topics=[])
    return script


def _batches() -> Script:
    script = Script("What is acquired of several batches, by batch size and number of records").begin()
    for first in range(0, 16, 4):
        script.produce(*(f"r{first + index}" for index in range(4)))
    script.join()
    script.first_fetch(batch_size=2)
    script.ack((0, 15, [RELEASE]))
    script.fetch(max_records=6)
    script.fetch(max_records=1)
    script.ack((0, 15, [ACCEPT]))
    script.produce("x", "y", "z")
    script.fetch(max_records=2, batch_size=1)
    script.ack((16, 16, [ACCEPT]), (17, 18, [RELEASE]))
    script.fetch(max_bytes=1)
    script.fetch(acks=[(17, 18, [ACCEPT, REJECT])], min_bytes=0, max_wait=0)
    return script


def _two_members() -> Script:
    script = Script("A record is acquired by one member at a time").begin()
    script.produce("a", "b", "c", "d")
    script.produce("e", "f")
    script.join()
    script.beat(B, 0, ["t~"], volatile={"assignment": "any"})
    script.first_fetch(max_records=3)
    script.fetch(B)
    script.fetch(B, max_wait=100)
    script.ack((0, 0, [ACCEPT]), member=B)
    script.ack((4, 5, [ACCEPT]))
    script.ack((0, 1, [RELEASE]))
    script.fetch(B)
    script.ack((0, 3, [ACCEPT]), member=B)
    script.ack((0, 1, [ACCEPT]), member=B)
    script.ack((2, 3, [ACCEPT]))
    script.ack((0, 3, [ACCEPT]), member=B)
    script.ack((4, 5, [REJECT]), member=B)
    script.offsets()
    return script


def _acknowledgements() -> Script:
    script = Script("Acknowledgement types for each offset, gaps, and what comes again").begin()
    script.produce(*"abcdefgh")
    script.join()
    script.first_fetch()
    script.ack((0, 3, [ACCEPT, RELEASE, REJECT, GAP]))
    script.fetch()
    script.ack((1, 1, [RELEASE]), (4, 5, [RELEASE]))
    script.fetch(max_records=2)
    script.fetch(acks=[(6, 7, [ACCEPT])])
    script.ack((1, 1, [ACCEPT]), (4, 5, [ACCEPT]))
    script.offsets()
    return script


def _wrong_acknowledgements() -> Script:
    script = Script("Acknowledgements that are refused").begin()
    script.produce(*"abcd")
    script.join()
    script.first_fetch()
    script.ack((1, 0, [ACCEPT]))
    script.ack((0, 1, [ACCEPT]), (0, 0, [ACCEPT]))
    script.ack((0, 1, [ACCEPT]), (1, 2, [ACCEPT]))
    script.ack((0, 1, []))
    script.ack((0, 3, [ACCEPT, ACCEPT]))
    script.ack((0, 0, [5]))
    script.ack((0, 0, [-1]))
    script.ack((0, 0, [RENEW]))
    script.ack((-5, -3, [ACCEPT]))
    script.ack((-2, 1, [ACCEPT]))
    script.ack((3, 9, [ACCEPT]))
    script.ack((7, 9, [ACCEPT]))
    script.ack((1, 1, [ACCEPT]), (9, 9, [ACCEPT]))
    script.fetch(max_wait=100)
    script.ack((0, 3, [RELEASE]))
    script.ack((0, 3, [ACCEPT]))
    script.ack((1, 1, [ACCEPT]))
    script.fetch()
    script.ack((0, 3, [ACCEPT]))
    script.ack((0, 3, [ACCEPT]))
    script.ack(
        topics=[
            {
                "topic_id": "00000000-0000-0000-0000-00000000002a",
                "partitions": [{"partition_index": 0, "acknowledgement_batches": batches_of([(0, 0, [ACCEPT])])}],
            }
        ]
    )
    script.ack(
        topics=[
            {
                "topic_id": "$id:t~",
                "partitions": [{"partition_index": 7, "acknowledgement_batches": batches_of([(0, 0, [ACCEPT])])}],
            }
        ]
    )
    script.ack((0, 0, [ACCEPT]), at=2)
    script.ack(topics=[{"topic_id": "$id:t~", "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}])
    return script


def _locks() -> Script:
    script = Script("An acquisition lock expires").begin()
    script.produce(*"abcd")
    script.join()
    script.first_fetch()
    script.ack((1, 1, [ACCEPT]))
    script.sleep(LOCK_MS + 400)
    script.ack((0, 0, [ACCEPT]))
    script.fetch(B)
    script.ack((0, 0, [ACCEPT]))
    script.ack((0, 0, [ACCEPT]), member=B)
    script.fetch(B, epoch=-1, topics=[])
    script.fetch()
    return script


def _renew() -> Script:
    script = Script("A member renews its locks (KIP-1222)").begin()
    script.produce(*"abcd")
    script.join()
    script.first_fetch()
    script.sleep(1_300)
    script.ack((0, 1, [RENEW]), renew=True)
    script.fetch(acks=[(2, 2, [RENEW])], is_renew_ack=True, epoch=99)
    script.fetch(acks=[(2, 2, [RENEW])], is_renew_ack=True, max_wait=0, min_bytes=0, max_bytes=0, max_records=0)
    script.sleep(1_100)
    script.fetch()
    script.ack((0, 2, [ACCEPT]))
    script.config("share.renew.acknowledge.enable", "false")
    script.ack((3, 3, [RENEW]), renew=True)
    script.ack((3, 3, [ACCEPT]), renew=True)
    return script


def _delivery_limit() -> Script:
    script = Script("Records are delivered a few at a time, and not more often than the limit").begin(
        **{"share.delivery.count.limit": "4"}
    )
    script.produce(*"abcdefgh")
    script.join()
    script.first_fetch()
    script.ack((0, 7, [RELEASE]))
    script.fetch()
    script.ack((0, 7, [RELEASE]))
    for _ in range(4):
        script.fetch()
    script.sleep(LOCK_MS + 400)
    for _ in range(5):
        script.fetch()
    script.sleep(LOCK_MS + 400)
    for _ in range(3):
        script.fetch(max_wait=100)
    return script


def _record_limit() -> Script:
    script = Script("Mode record_limit (KIP-1206)").begin()
    script.produce(*"abcdef")
    script.produce(*"ghij")
    script.join()
    script.first_fetch(share_acquire_mode=1, max_records=2)
    script.fetch(share_acquire_mode=1, max_records=3)
    script.fetch(share_acquire_mode=1, max_records=1)
    script.ack((0, 4, [RELEASE]))
    script.fetch(share_acquire_mode=1, max_records=4)
    script.fetch(share_acquire_mode=1, max_records=4)
    script.fetch(share_acquire_mode=0, max_records=4)
    return script


def _most_locks() -> Script:
    script = Script("No more records are in flight than the limit").begin(**{"share.partition.max.record.locks": "100"})
    for first in range(0, 160, 40):
        script.produce(*(f"r{first + index}" for index in range(40)))
    script.join()
    script.first_fetch(max_records=500, batch_size=50)
    script.fetch(max_records=500, max_wait=100)
    script.ack((0, 39, [ACCEPT]))
    script.fetch(max_records=500)
    script.ack((60, 79, [RELEASE]))
    script.fetch(max_records=500)
    return script


def _sessions() -> Script:
    script = Script("Share sessions: their epochs, their partitions, their end").begin(("t~", 1), ("u~", 1))
    script.produce(*"abc")
    script.join(["t~", "u~"])
    script.first_fetch()
    script.fetch(epoch=0, acks=[(0, 0, [ACCEPT])])
    script.fetch(epoch=7)
    script.ack((0, 0, [ACCEPT]), epoch=0)
    script.ack((0, 0, [ACCEPT]), epoch=7)
    script.fetch(topics=[{"topic_id": "$id:u~", "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}])
    script.fetch(
        max_wait=0,
        topics=[
            {"topic_id": "$id:u~", "partitions": [{"partition_index": 5, "acknowledgement_batches": []}]},
        ],
    )
    script.fetch(max_wait=0)
    script.fetch(
        max_wait=0,
        forgotten=[
            {"topic_id": "$id:u~", "partitions": [0, 5]},
        ],
    )
    script.fetch(epoch=0, max_wait=100)
    script.epochs[A] = 1
    script.fetch(epoch=-1, acks=[(0, 0, [ACCEPT])])
    script.ack((1, 1, [ACCEPT]), epoch=1)
    script.fetch(B, epoch=0)
    script.epochs[B] = 1
    script.ack((1, 1, [ACCEPT]), member=B, epoch=-1)
    script.ack((2, 2, [ACCEPT]), member=B, epoch=-1)
    script.fetch(epoch=0, at=2)
    script.fetch("x" * 37, epoch=0)
    script.fetch(epoch=0, group="other~", max_wait=100)
    return script


def _several_partitions() -> Script:
    script = Script("Records of several partitions of one leader").begin(("t~", 4))
    for partition in (0, 3):
        script.produce(*(f"p{partition}-{index}" for index in range(3)), partition=partition)
    script.join()
    both = [
        {
            "topic_id": "$id:t~",
            "partitions": [{"partition_index": index, "acknowledgement_batches": []} for index in (0, 3)],
        }
    ]
    script.fetch(topics=both, until={"responses.0.partitions.1.error_code": 0}, max_wait=1_000, min_bytes=100)
    script.fetch(max_wait=100)
    script.ack(
        topics=[
            {
                "topic_id": "$id:t~",
                "partitions": [
                    {"partition_index": 0, "acknowledgement_batches": batches_of([(0, 2, [ACCEPT])])},
                    {
                        "partition_index": 3,
                        "acknowledgement_batches": batches_of([(0, 1, [ACCEPT]), (2, 2, [RELEASE])]),
                    },
                ],
            }
        ]
    )
    script.fetch()
    script.produce("more", partition=0)
    script.fetch()
    return script


def _reset() -> Script:
    script = Script("Where a group begins: share.auto.offset.reset").begin(
        ("t~", 1), **{"share.auto.offset.reset": "latest"}
    )
    script.produce(*"abc")
    script.join()
    script.fetch(max_wait=500)
    script.produce(*"de")
    script.fetch()
    script.ack((3, 4, [ACCEPT]))
    script.offsets()
    return script


def _new_member_after_close() -> Script:
    script = Script("What a member had is free when its session is closed").begin()
    script.produce(*"abcd")
    script.join()
    script.first_fetch()
    script.ack((0, 0, [ACCEPT]))
    script.fetch(epoch=-1, topics=[])
    script.fetch(B)
    script.ack((1, 3, [ACCEPT]), member=B)
    script.fetch(B, max_wait=100)
    script.offsets()
    return script
