"""The codec compared with kio 0.6 in both directions, in every version that kio has."""

import importlib
import io
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import kio.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from klamm.protocol import Message, decode_message, encode_message
from klamm.protocol.fields import Array, wire_fields
from tests.protocol.strategies import FEW_EXAMPLES, all_apis, messages

(KIO,) = map(Path, kio.schema.__path__)


def kio_module(message_class: type[Message], version: int) -> str:
    """The module that kio has for the same message and version, if any."""
    module = message_class.__module__.rsplit(".", 1)[-1]
    kind = "request" if message_class.__name__.endswith("Request") else "response"
    return f"{module}.v{version}.{kind}"


def kio_has(message_class: type[Message], version: int) -> bool:
    """Whether there is such a module. To import all of them, to collect tests, would take seconds."""
    return KIO.joinpath(*kio_module(message_class, version).split(".")).with_suffix(".py").exists()


def kio_class(message_class: type[Message], version: int) -> Any:
    """kio's class of the same message and version."""
    module = importlib.import_module(f"kio.schema.{kio_module(message_class, version)}")
    return getattr(module, message_class.__name__)


Schema = tuple[type[Message], int, bool]
SERVED = [
    "ApiVersions",
    "Metadata",
    "CreateTopics",
    "CreatePartitions",
    "DeleteTopics",
    "DescribeCluster",
    "DescribeTopicPartitions",
    "DescribeConfigs",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "UnregisterBroker",
]
BY_API: dict[str, list[Schema]] = {
    api.name: [
        (message_class, version, api.flexible(version))
        for version in api.kept_versions
        for message_class in (api.request, api.response)
        if kio_has(message_class, version)
    ]
    for api in all_apis()
}


def same(ours: Any, theirs: Any, kind: Any, version: int) -> bool:
    """Whether kio's value says the same as ours: it has durations, times, enums and UUID objects."""
    if ours is None:
        return theirs is None
    if isinstance(kind, Array):
        return len(ours) == len(theirs) and all(same(a, b, kind.of, version) for a, b in zip(ours, theirs, strict=True))
    if isinstance(kind, type):
        return all(
            same(getattr(ours, wire.name), kio_attribute(theirs, wire.name), wire.type, version)
            for wire in wire_fields(kind)
            if wire.in_version(version)
        )
    if isinstance(theirs, timedelta):
        return bool(timedelta(milliseconds=ours) == theirs)
    if isinstance(theirs, datetime):
        return bool(ours == round(theirs.timestamp() * 1000))
    if kind == "uuid":
        return bool(ours == (bytes(16) if theirs is None else theirs.bytes))
    return bool(ours == theirs)


def kio_attribute(theirs: Any, name: str) -> Any:
    for candidate in (name, name.removesuffix("_ms"), f"{name}_", name.replace("kraft", "k_raft")):
        if hasattr(theirs, candidate):
            return getattr(theirs, candidate)
    raise AssertionError(f"kio has no {name} among {theirs.__dataclass_fields__.keys()}")


def agrees(schema: Schema, data: st.DataObject) -> None:
    message_class, version, flexible = schema
    message = data.draw(messages(message_class, version, flexible, for_kio=True))
    raw = encode_message(message, version, flexible)
    theirs, size = entity_reader(kio_class(message_class, version))(raw, 0)
    assert size == len(raw)
    assert same(message, theirs, message_class, version)
    written = io.BytesIO()
    entity_writer(type(theirs))(written, theirs)
    assert written.getvalue() == raw
    assert decode_message(message_class, version, flexible, written.getvalue()) == message


@pytest.mark.parametrize(
    "schema",
    [schema for name in SERVED for schema in BY_API[name]],
    ids=lambda schema: f"{schema[0].__name__}-v{schema[1]}",
)
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_kio_agrees_on_every_version_of_what_is_served(schema: Schema, data: st.DataObject) -> None:
    agrees(schema, data)


@pytest.mark.parametrize("name", [name for name, schemas in BY_API.items() if schemas and name not in SERVED])
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_kio_agrees_on_all_other_apis(name: str, data: st.DataObject) -> None:
    agrees(data.draw(st.sampled_from(BY_API[name])), data)


def test_kio_lacks_nothing_that_is_served() -> None:
    """Otherwise the tests above could be empty."""
    for name in SERVED:
        versions = {version for _, version, _ in BY_API[name]}
        assert versions == set(next(api for api in all_apis() if api.name == name).kept_versions), name
    assert sum(bool(schemas) for schemas in BY_API.values()) >= 85
