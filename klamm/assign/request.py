"""Decodes one line of `klamm assign`: a view of the brokers, and the placements to make in it.

docs/placement.md lists the members. An invalid line raises `InvalidRequest`, whose text says what is wrong and where.
Numbers are validated before anything of their size is allocated. Whether a placement exists (no partitions, too few
brokers, mixed racks) is decided by `klamm.assignment`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from klamm.assignment import Algorithm, ClusterView, PlacementSpec
from klamm.assignment.cluster_view import MAX_BROKERS, NO_LIMIT
from klamm.console.strict_json import InvalidJson, decode_object, described, shown
from klamm.protocol.near_names import did_you_mean

MAX_LINE_BYTES: Final = 64 << 20
"""A longer line is refused and not kept in memory; the largest valid view needs only a part of this size."""
MAX_UNKNOWN_MEMBERS: Final = 100
SIMILAR_MEMBERS: Final = 0.8
"""How similar an unknown member is to a known one when it is refused as misspelt; others are ignored."""

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_ALGORITHMS: Final = {algorithm.value: algorithm for algorithm in Algorithm}
MEMBERS: Final = frozenset((
    "brokers", "partitions", "rf", "fixedStartIndex", "startPartitionId", "algorithm", "counts", "maxBrokerPartitions",
    "maxPartitions", "clusterPartitions", "live", "minInsyncReplicas", "underReplicated", "seed", "calls",
))  # fmt: skip
_RECORDED: Final = frozenset(("note", "usableBrokers", "rackAlternated", "rackMapOrder", "assignment", "error"))
"""Members that only recordings of Kafka's placement have. They are ignored, so that a recording is a valid line."""
CALL_MEMBERS: Final = frozenset(("startPartition", "numPartitions", "numReplicas"))
_RECORDED_IN_CALLS: Final = frozenset(("spec", "replicas", "draws", "error"))
_MISSING: Final = object()


class InvalidRequest(Exception):
    """The line is not a valid request. The text says what is wrong and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignRequest:
    """The request of a line: placements in a view, made one after the other with one random source."""

    view: ClusterView
    specs: tuple[PlacementSpec, ...]
    seed: int
    has_calls: bool
    """Whether the request has `calls`; then the answer has `results`."""


def decode_line(line: bytes) -> AssignRequest:
    """Decode one line, with or without its line end. Raises InvalidRequest."""
    members = _decode_object(line)
    _refuse_misspelt(members, MEMBERS, _RECORDED, "")
    try:
        return AssignRequest(
            view=_decode_view(members),
            specs=_decode_specs(members),
            seed=_number(members, "seed", *_INT64, absent=0),
            has_calls=members.get("calls") is not None,
        )
    except ValueError as error:  # raised by ClusterView or PlacementSpec, with the numbers in its text
        raise InvalidRequest(str(error)) from None


def _decode_object(line: bytes) -> Mapping[str, Any]:
    if len(line) - line.endswith(b"\n") > MAX_LINE_BYTES:
        raise InvalidRequest(f"the line has more than {MAX_LINE_BYTES} bytes")
    try:
        return decode_object(line, "the line")
    except InvalidJson as error:
        raise InvalidRequest(str(error)) from None


def _refuse_misspelt(members: Mapping[str, Any], known: frozenset[str], recorded: frozenset[str], where: str) -> None:
    """Refuse unknown members whose name is similar to a known one, because a misspelt limit would have no effect.

    Other unknown members are ignored, because users may add their own.
    """
    unknown = members.keys() - known - recorded
    if len(unknown) > MAX_UNKNOWN_MEMBERS:
        raise InvalidRequest(f"{where}{len(unknown)} unknown members; at most {MAX_UNKNOWN_MEMBERS} are ignored")
    for name in sorted(unknown):
        if near := did_you_mean(name, known, SIMILAR_MEMBERS):
            raise InvalidRequest(f"{where}unknown member {shown(name)}{near}")


def _decode_view(members: Mapping[str, Any]) -> ClusterView:
    brokers = members.get("brokers", members.get("usableBrokers", _MISSING))
    if not isinstance(brokers, list):
        _refuse("brokers", brokers, "a list of [id, rack] or [id, rack, fenced]")
    if len(brokers) > MAX_BROKERS:
        raise InvalidRequest(f"{len(brokers)} brokers, more than {MAX_BROKERS}")
    rows = [_broker(broker, at) for at, broker in enumerate(brokers)]
    index_of = {broker_id: index for index, (broker_id, _, _) in enumerate(rows)}
    return ClusterView(
        broker_ids=np.array([broker_id for broker_id, _, _ in rows], dtype=np.int64),
        racks=tuple(rack for _, rack, _ in rows),
        fenced=_fenced(members.get("live"), [fenced for _, _, fenced in rows], index_of),
        replica_counts=_replica_counts(members.get("counts"), index_of, len(rows)),
        replica_limit=_number(members, "maxBrokerPartitions", 1, NO_LIMIT, absent=NO_LIMIT),
        partition_count=_number(members, "clusterPartitions", 0, NO_LIMIT, absent=0),
        partition_limit=_number(members, "maxPartitions", 1, NO_LIMIT, absent=NO_LIMIT),
    )


def _broker(broker: Any, at: int) -> tuple[int, str | None, bool]:
    if not isinstance(broker, list) or not 2 <= len(broker) <= 3:
        _refuse(f"brokers[{at}]", broker, "[id, rack] or [id, rack, fenced]")
    broker_id, rack, fenced = broker if len(broker) == 3 else (*broker, False)
    if rack is not None and not isinstance(rack, str):
        _refuse(f"brokers[{at}][1]", rack, "a rack's name, or null,")
    if not isinstance(fenced, bool):
        _refuse(f"brokers[{at}][2]", fenced, "true or false")
    return _checked(f"brokers[{at}][0]", broker_id, 0, _INT32[1]), rack, fenced


def _fenced(live: Any, fenced: list[bool], index_of: Mapping[int, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if live is None:
        return np.array(fenced, dtype=np.bool_)
    if not isinstance(live, list):
        _refuse("live", live, "a list of broker ids")
    others = np.ones(len(fenced), dtype=np.bool_)
    for at, broker_id in enumerate(live):
        index = index_of.get(_checked(f"live[{at}]", broker_id, 0, _INT32[1]))
        if index is None:
            raise InvalidRequest(f"live[{at}] is {broker_id}, which is not among the brokers")
        others[index] = False
    return others


def _replica_counts(counts: Any, index_of: Mapping[int, int], size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    replica_counts = np.zeros(size, dtype=np.int64)
    if counts is None:
        return replica_counts
    if not isinstance(counts, dict):
        _refuse("counts", counts, "an object of broker ids and numbers")
    index_of_name = {str(broker_id): index for broker_id, index in index_of.items()}
    for name, count in counts.items():
        if name not in index_of_name:
            raise InvalidRequest(f"counts names {shown(name)}, which is not among the brokers")
        replica_counts[index_of_name[name]] = _checked(f'counts["{name}"]', count, 0, NO_LIMIT)
    return replica_counts


def _decode_specs(members: Mapping[str, Any]) -> tuple[PlacementSpec, ...]:
    calls = members.get("calls")
    start_index = _number(members, "fixedStartIndex", *_INT32, absent=-1)
    under_replicated = members.get("underReplicated")
    if not isinstance(under_replicated, bool | None):
        _refuse("underReplicated", under_replicated, "true or false")
    shared = {
        "algorithm": _algorithm(members, Algorithm.ROUND_ROBIN if calls is None else Algorithm.STRIPED),
        "start_index": None if start_index < 0 else start_index,
        "under_replicated": bool(under_replicated),
        "min_insync_replicas": _number(members, "minInsyncReplicas", 1, _INT32[1], absent=1),
    }
    if calls is None:
        return (_decode_spec(members, ("partitions", "rf", "startPartitionId"), "", shared),)
    if not isinstance(calls, list):
        _refuse("calls", calls, "a list of objects")
    return tuple(_decode_call(call, f"calls[{at}]", shared) for at, call in enumerate(calls))


def _decode_call(call: Any, where: str, shared: Mapping[str, Any]) -> PlacementSpec:
    if isinstance(call, dict):
        _refuse_misspelt(call, CALL_MEMBERS, _RECORDED_IN_CALLS, f"{where}: ")
        call = call.get("spec", call)
    if not isinstance(call, dict):
        _refuse(where, call, "an object with numPartitions and numReplicas")
    return _decode_spec(call, ("numPartitions", "numReplicas", "startPartition"), f"{where}.", shared)


def _decode_spec(
    members: Mapping[str, Any], names: tuple[str, str, str], where: str, shared: Mapping[str, Any]
) -> PlacementSpec:
    partitions, replication_factor, first_partition = names
    return PlacementSpec(
        partitions=_number(members, partitions, *_INT32, where=where),
        replication_factor=_number(members, replication_factor, *_INT32, where=where),
        first_partition=max(_number(members, first_partition, *_INT32, absent=0, where=where), 0),
        **shared,
    )


def _algorithm(members: Mapping[str, Any], absent: Algorithm) -> Algorithm:
    name = members.get("algorithm")
    if name is None:
        return absent
    if not isinstance(name, str) or name not in _ALGORITHMS:
        _refuse("algorithm", name, " or ".join(f'"{known}"' for known in _ALGORITHMS))
    return _ALGORITHMS[name]


def _number(
    members: Mapping[str, Any], name: str, lowest: int, highest: int, absent: int | None = None, where: str = ""
) -> int:
    number = members.get(name, _MISSING)
    if absent is not None and (number is None or number is _MISSING):
        return absent
    return _checked(where + name, number, lowest, highest)


def _checked(what: str, number: Any, lowest: int, highest: int) -> int:
    # Not isinstance, because it would accept true.
    if type(number) is not int or not lowest <= number <= highest:
        _refuse(what, number, f"a whole number from {lowest} to {highest}")
    return number


def _refuse(what: str, found: Any, expected: str) -> NoReturn:
    raise InvalidRequest(f"{what} is {'missing' if found is _MISSING else described(found)}; {expected} is expected")
