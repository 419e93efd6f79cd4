"""Record batches in the form of the recordings of coordinators: JSON with keys and values as text, both ways."""

from collections.abc import Mapping
from typing import Any

from klamm.broker.coordinator.batches import EndOfTransaction, decode_records
from klamm.broker.data.control_batches import read_marker
from klamm.broker.data.record_batches import decode_header
from tests.broker.data.batches import CONTROL, TRANSACTIONAL, batch, record


def with_bytes(value: Any, now_ms: int) -> Any:
    """A request with bytes in place of batches, whose records have this timestamp."""
    if isinstance(value, list):
        return [with_bytes(inner, now_ms) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {"batches"}:
        return {"hex": b"".join(_bytes_of(one, now_ms) for one in value["batches"]).hex()}
    return {key: with_bytes(inner, now_ms) for key, inner in value.items()}


def with_batches(value: Any) -> Any:
    """An answer with batches in place of the bytes of its `records`."""
    if isinstance(value, list):
        return [with_batches(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: {"batches": _batches_of(bytes.fromhex(inner["hex"]))}
        if key == "records" and isinstance(inner, Mapping) and "hex" in inner
        else with_batches(inner)
        for key, inner in value.items()
    }


def _bytes_of(form: Mapping[str, Any], now_ms: int) -> bytes:
    texts = [(one.get("key"), one.get("value")) for one in form["records"]]
    records = [
        record(index, key=None if key is None else key.encode(), value=None if value is None else value.encode())
        for index, (key, value) in enumerate(texts)
    ]
    return batch(
        records,
        timestamp_ms=now_ms,
        attributes=TRANSACTIONAL * bool(form.get("transactional")) | CONTROL * bool(form.get("control")),
        producer_id=form.get("producer_id", -1),
        producer_epoch=form.get("producer_epoch", -1),
        base_sequence=form.get("base_sequence", -1),
    )


def _batches_of(data: bytes) -> list[dict[str, Any]]:
    found = []
    while data:
        size = 12 + int.from_bytes(data[8:12])
        found.append(_form_of(data[:size]))
        data = data[size:]
    return found


def _form_of(data: bytes) -> dict[str, Any]:
    header = decode_header(data)
    form: dict[str, Any] = {
        "base_offset": header.base_offset,
        "leader_epoch": int.from_bytes(data[12:16], signed=True),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
    }
    records = list(decode_records(header))
    if records and isinstance(records[0], EndOfTransaction):
        outcome = "commit" if records[0].committed else "abort"
        return form | {"control": outcome, "coordinator_epoch": read_marker(header).coordinator_epoch}
    form["records"] = [
        {
            "key": None if one.key is None else one.key.decode(),
            "value": None if one.value is None else one.value.decode(),
        }
        for one in records
        if not isinstance(one, EndOfTransaction)
    ]
    return form
