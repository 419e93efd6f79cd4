"""Kafka's JSON form of messages: any message can be converted and read back; errors have the path."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import Message, ProtocolError, encode_message
from klamm.protocol.codec.json_form import json_name, message_from_json, message_to_json
from klamm.protocol.fields import wire_fields
from klamm.protocol.messages.topics.create_topics import CreateTopicsRequest
from klamm.protocol.records.brokers import RegisterBrokerRecord
from klamm.protocol.records.configs import ClientQuotaRecord
from klamm.protocol.records.control import KRaftVersionRecord
from tests.protocol.strategies import all_schemas, messages

SCHEMAS = list(all_schemas())


@given(data=st.data())
def test_every_message_is_equal_after_a_round_trip_through_json(data: st.DataObject) -> None:
    message_class, version, flexible = data.draw(st.sampled_from(SCHEMAS))
    message: Message = data.draw(messages(message_class, version, flexible, for_kio=True))  # without unknown tags
    text = json.dumps(message_to_json(message, version), allow_nan=False)
    again = message_from_json(message_class, json.loads(text), version)
    assert again == message
    assert encode_message(again, version, flexible) == encode_message(message, version, flexible)


@pytest.mark.parametrize(("value", "shown"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_nan_and_infinities_are_strings(value: float, shown: str) -> None:
    record = ClientQuotaRecord(value=value)
    form = message_to_json(record, 0)
    assert form["value"] == shown
    assert message_from_json(ClientQuotaRecord, form, 0) == record


def test_tagged_defaults_and_fields_of_other_versions_are_left_out() -> None:
    assert "logDirs" not in message_to_json(RegisterBrokerRecord(), 4)
    assert message_to_json(RegisterBrokerRecord(cordoned_log_dirs=()), 4)["cordonedLogDirs"] == []
    assert "inControlledShutdown" not in message_to_json(RegisterBrokerRecord(), 0)


def test_names_are_kafkas() -> None:
    assert [json_name(wire) for wire in wire_fields(KRaftVersionRecord)] == ["version", "kRaftVersion"]
    assert [json_name(wire) for wire in wire_fields(CreateTopicsRequest)] == ["topics", "timeoutMs", "validateOnly"]


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ([], ""),
        ({"topic": []}, "topic"),
        ({"topics": "a"}, "topics"),
        ({"topics": [{"name": 5}]}, "topics[0].name"),
        ({"topics": [{"nmae": "a"}]}, "topics[0].nmae"),
        ({"topics": [{}, {"numPartitions": True}]}, "topics[1].numPartitions"),
        ({"topics": None}, "topics"),
        ({"topics": [None]}, "topics[0]"),
        ({"timeoutMs": None}, "timeoutMs"),
        ({"timeoutMs": 1.5}, "timeoutMs"),
        ({"validateOnly": 1}, "validateOnly"),
    ],
)
def test_invalid_json_forms_are_refused_with_their_path(form: Any, path: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        message_from_json(CreateTopicsRequest, form, 7)
    assert caught.value.path == path


@pytest.mark.parametrize("text", ["A", "VlBIIO9USluf1Zer26cQR!", 5, None])
def test_an_invalid_uuid_is_refused_with_its_path(text: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        message_from_json(RegisterBrokerRecord, {"incarnationId": text}, 4)
    assert caught.value.path == "incarnationId"
