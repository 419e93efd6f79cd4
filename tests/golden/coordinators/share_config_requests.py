"""Scenarios of group configs of share groups, and of lists and descriptions, which `record_share.py` sends to a real
Apache Kafka 4.3 (README.md)."""

from collections.abc import Iterator
from typing import Any

from tests.golden.coordinators.share_script import AFTER_INITIALIZATION_MS, A, B, Script

SET, DELETE, APPEND, SUBTRACT = range(4)
GROUP = 32
_VALUES = {
    "share.session.timeout.ms": ("499", "500", "60000", "60001", "x", "", "-1", "2147483648", "3000"),
    "share.heartbeat.interval.ms": ("99", "100", "15000", "15001", "200"),
    "share.record.lock.duration.ms": ("999", "1000", "60000", "60001", "2000"),
    "share.delivery.count.limit": ("1", "2", "10", "11", "5.0", "5"),
    "share.partition.max.record.locks": ("99", "100", "4000", "4001", "2000"),
    "share.auto.offset.reset": (
        "none", "EARLIEST", "by_duration:PT1H", "by_duration:", "by_duration:-PT1H", "by_duration:PT0S",
        "by_duration:x", "BY_DURATION:PT1H", "P1D", "", " latest", "latest",
    ),
    "share.isolation.level": ("READ_COMMITTED", "read_committed", "serializable", "", "read_uncommitted"),
    "share.renew.acknowledge.enable": ("TRUE", "yes", "", "false"),
    "share.assignment.interval.ms": ("-1", "0", "15000", "15001", "x"),
    "share.nope": ("1",),
    "consumer.session.timeout.ms": ("1000", "1"),
}  # fmt: skip


def config_scenarios() -> Iterator[tuple[str, Script]]:
    """All of them by name."""
    yield "share-config-values", _values()
    yield "share-config-changes", _changes()
    yield "share-config-effects", _effects()
    yield "share-lists", _lists()


def change(
    script: Script, *changes: tuple[str, int, str | None], group: str = "g~", validate_only: bool = False
) -> None:
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    script.ask("incremental_alter_configs", 1, {"resources": [resource], "validate_only": validate_only})


def describe_configs(script: Script, *names: str, group: str = "g~", version: int = 4, **more: Any) -> None:
    resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": list(names) or None}
    request = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
    script.ask("describe_configs", version, request, poll=True, **more)


def _values() -> Script:
    script = Script("Values of the configs of a share group").begin()
    for name, values in _VALUES.items():
        for value in values:
            change(script, (name, SET, value))
    return script


def _changes() -> Script:
    script = Script("Changes of the configs of a share group, and what is described").begin()
    lock, limit = "share.record.lock.duration.ms", "share.delivery.count.limit"
    describe_configs(script)
    describe_configs(script, lock, "share.nope", "share.heartbeat.interval.ms")
    describe_configs(script, group="other~")
    describe_configs(script, group="")
    change(script, (lock, SET, None))
    change(script, (lock, DELETE, None))
    change(script, (lock, APPEND, "1500"))
    change(script, (lock, SUBTRACT, "1500"))
    change(script, (lock, SET, "1500"), (lock, SET, "1600"))
    change(script, (lock, SET, "1500"), (limit, SET, "99"))
    change(script, (lock, SET, "1500"), (limit, SET, "3"), validate_only=True)
    describe_configs(script, lock, limit)
    change(script, (lock, SET, "1500"), (limit, SET, "3"))
    describe_configs(script, lock, limit)
    change(script, ("share.session.timeout.ms", SET, "600"), ("share.heartbeat.interval.ms", SET, "600"))
    change(script, ("share.session.timeout.ms", SET, "600"), ("share.heartbeat.interval.ms", SET, "599"))
    change(script, ("share.heartbeat.interval.ms", SET, "700"))
    change(script, ("share.session.timeout.ms", DELETE, None))
    change(script)
    change(script, (lock, SET, "1500"), group="")
    whole = {"resource_type": GROUP, "resource_name": "g~", "configs": [{"name": lock, "value": "1700"}]}
    script.ask("alter_configs", 2, {"resources": [whole], "validate_only": False})
    describe_configs(script, lock, limit)
    script.ask("alter_configs", 2, {"resources": [{**whole, "configs": []}], "validate_only": False})
    describe_configs(script, lock, limit)
    for types in ([GROUP], [GROUP, 99], []):
        script.ask(
            "list_config_resources", 1, {"resource_types": types}, volatile={"config_resources": "own"}, poll=True
        )
    return script


def _effects() -> Script:
    script = Script("Intervals and limits of one group").begin(
        **{"share.heartbeat.interval.ms": "150", "share.session.timeout.ms": "700"}
    )
    script.produce(*"abc")
    script.beat(A, 0, ["t~"])
    change(script, ("share.heartbeat.interval.ms", SET, "250"), ("share.record.lock.duration.ms", SET, "1200"))
    script.sleep(AFTER_INITIALIZATION_MS)
    script.beat(A, 2, until={"assignment": "$set"})
    script.first_fetch()
    script.sleep(900)
    script.beat(A, 3)
    script.ask("share_group_describe", 1, {"group_ids": ["g~"], "include_authorized_operations": False}, at="group:g~")
    script.sleep(400)
    script.fetch(B)
    change(script, ("share.session.timeout.ms", DELETE, None), ("share.heartbeat.interval.ms", DELETE, None))
    script.beat(A, 0, ["t~"], volatile={"assignment": "any"})
    script.sleep(900)
    script.beat(A, 5, volatile={"assignment": "any"})
    return script


def _lists() -> Script:
    script = Script("Lists, descriptions and the end of share groups").begin()
    script.join()
    own = {"groups": "own"}

    def listed(states: list[str], types: list[str], version: int = 5) -> None:
        request = {"states_filter": states, "types_filter": types} if version == 5 else {}
        request = {"states_filter": states} if version == 4 else request
        script.ask("list_groups", version, request, at="group:g~", volatile=own)

    for states, types in (
        (["Stable"], []), (["stable"], ["SHARE"]), (["Empty"], ["share"]), (["Dead"], ["share"]), ([], ["consumer"]),
        ([], ["classic", "share"]), (["Nope"], ["share"]), ([], ["nope"]), (["Assigning", "Reconciling"], []),
    ):  # fmt: skip
        listed(states, types)
    for version in (4, 3, 0):
        listed(["Stable"] if version == 4 else [], [], version)

    def described(groups: list[str], at: str = "group:g~", *, operations: bool = False, **more: Any) -> None:
        request = {"group_ids": groups, "include_authorized_operations": operations}
        script.ask("share_group_describe", 1, request, at=at, **more)

    described([])
    described([""])
    # Another broker may be its coordinator.
    either = {"groups[].error_code": [16, 69], "groups[].error_message": "any"}
    described(["nope~", "nope~"], operations=True, volatile=either)
    described(["g~"], "other:group:g~")
    described(["g~"], operations=True)
    for version in (5, 6):
        request = {"groups": ["g~"], "include_authorized_operations": True}
        script.ask("describe_groups", version, request, at="group:g~")
    script.ask(
        "consumer_group_describe", 1, {"group_ids": ["g~"], "include_authorized_operations": True}, at="group:g~"
    )
    script.ask("streams_group_describe", 0, {"group_ids": ["g~"], "include_authorized_operations": True}, at="group:g~")
    script.ask(
        "delete_groups",
        2,
        {"groups_names": ["g~", "nope~", "g~", ""]},
        at="group:g~",
        volatile={"results[].error_code": [16, 24, 68, 69]},
    )
    script.ask("delete_groups", 2, {"groups_names": ["g~"]}, at="other:group:g~")
    script.beat(A, -1)
    script.beat(A, -1)
    listed([], ["share"])
    listed(["empty"], ["share"])
    listed(["Stable"], ["share"])
    script.ask("delete_groups", 2, {"groups_names": ["g~", "g~"]}, at="group:g~")
    listed([], [])
    described(["g~"])
    script.ask("describe_groups", 6, {"groups": ["g~"], "include_authorized_operations": False}, at="group:g~")
    script.offsets()
    script.beat(A, 0, ["t~"])
    script.beat(A, -1)
    return script
