"""Brokers that act as those of former releases of Apache Kafka: what they list, what they answer, and to whom."""

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from klamm.broker.dispatch import APIS
from klamm.controller.client import Client
from klamm.controller.releases import RELEASES, Emulation, decode_max_versions, decode_releases
from klamm.controller.served_apis import serve
from klamm.controller.settings import Settings
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import allocate_producer_ids, envelope
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.partitions import alter_partition
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.zookeeper import controlled_shutdown, leader_and_isr, stop_replica, update_metadata
from tests.server.harness import Peer, create_topic, open_test_server, request_frame

SPEC = Path(__file__).parents[2] / "spec"
ON_REQUEST = {71, 72}
"""Client metrics are listed with `--client-telemetry` alone."""
BETWEEN_NODES = (leader_and_isr, stop_replica, update_metadata, controlled_shutdown)
OF_CONTROLLERS = (alter_partition, envelope, allocate_producer_ids)


def acting(emulation: Emulation) -> Settings:
    return Settings(seed=1, emulation=emulation)


def rows(full_name: str, listener: str) -> dict[int, tuple[int, int]]:
    with (SPEC / "releases.tsv").open(newline="") as table:
        return {
            int(row["api_key"]): (int(row["min_version"]), int(row["max_version"]))
            for row in csv.DictReader(table, delimiter="\t")
            if (row["release"], row["listener"]) == (full_name, listener)
        }


async def described(peer: Peer, version: int = 0) -> dict[int, tuple[int, int]]:
    body = api_versions.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    response = await peer.ask(api_versions.API, version, body)
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


@pytest.mark.parametrize("name", RELEASES)
async def test_a_release_lists_what_the_real_one_lists(name: str) -> None:
    release = RELEASES[name]
    async with open_test_server(settings=acting(Emulation(release))) as running:
        listed = await described(running.connect_in_memory(Client("broker", 1)))
    expected = rows(release.full_name, "zkBroker" if float(name) < 3.1 else "broker")
    expected = {key: span for key, span in expected.items() if key not in ON_REQUEST}
    if float(name) >= 4:
        expected[0] = 0, expected[0][1]  # the table has the versions that are answered
    assert {key: span for key, span in listed.items() if key < 10_000} == expected
    assert (max(listed) > 10_000) is (name == "4.3"), "Klamm's own APIs are listed by the newest release alone"


@pytest.mark.parametrize("name", RELEASES)
def test_every_listed_version_is_answered_and_no_other(name: str) -> None:
    tables = serve(APIS, emulation=Emulation(RELEASES[name])).tables
    for table in tables.values():
        for served in table.values():
            answered = set(served.answered)
            if served.api.name == "Produce" and float(name) >= 4:
                assert answered == set(served.described) - {0, 1, 2}
            elif served.described:
                assert answered == set(served.described)
            assert answered <= set(served.api.versions)


async def test_requests_between_nodes_are_refused() -> None:
    async with open_test_server(settings=acting(Emulation(RELEASES["3.0"]))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        listed = await described(peer)
        for module in (*BETWEEN_NODES, *OF_CONTROLLERS):
            for version in range(listed.get(module.API.key, (0, -1))[1] + 1):
                response = await peer.ask(module.API, version, module.API.request())
                assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (module.__name__, version)
        assert {module.API.key for module in BETWEEN_NODES} <= listed.keys()


FEATURES: Mapping[str, tuple[int, dict[str, tuple[int, int]], dict[str, int]]] = {
    # The epoch (None: that of the metadata log), the supported levels, and the finalized ones.
    "2.4": (-1, {}, {}),
    "2.8": (0, {}, {}),
}


@pytest.mark.parametrize("name", FEATURES)
async def test_brokers_with_zookeeper_have_no_features(name: str) -> None:
    epoch, supported, finalized = FEATURES[name]
    async with open_test_server(settings=acting(Emulation(RELEASES[name]))) as running:
        body = api_versions.ApiVersionsRequest(client_software_name="t", client_software_version="1")
        response = await running.connect_in_memory(Client("broker", 1)).ask(api_versions.API, 3, body)
    assert response.finalized_features_epoch == epoch
    assert {one.name: (one.min_version, one.max_version) for one in response.supported_features} == supported
    assert {one.name: one.max_version_level for one in response.finalized_features} == finalized


async def test_another_release_by_listener_and_by_client_id() -> None:
    emulation = decode_releases("3.6,old=2.4,client:legacy-*=2.1,client:leg*=2.4")
    async with open_test_server(settings=acting(emulation)) as running:
        newest = {}
        for who, client in {
            "all": Client("broker", 1),
            "listener": Client("broker", 1, listener_name="OLD"),
        }.items():
            newest[who] = (await described(running.connect_in_memory(client)))[0][1]
        assert newest == {"all": 9, "listener": 8}
        peer = running.connect_in_memory(Client("broker", 1, listener_name="OLD"))
        assert 60 not in await described(peer)
        body = api_versions.ApiVersionsRequest()
        for client_id, fetch in (("legacy-1", 10), ("leg", 11), ("other", 11), (None, 11)):
            await peer.send(encode_frame(encode_request(api_versions.API, 0, 1, client_id, body)))
            frame = await peer.receive() or b""
            _, response = decode_response(api_versions.API, 0, frame)
            assert next(one.max_version for one in response.api_keys if one.api_key == 1) == fetch, client_id


async def test_a_cap_by_hand() -> None:
    caps = decode_max_versions("Metadata=9, CreateTopics=5", {"Metadata": 3, "CreateTopics": 19})
    async with open_test_server(settings=acting(Emulation(max_versions=caps))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        listed = await described(peer)
        assert (listed[3], listed[19], listed[20]) == ((0, 9), (2, 5), (1, 6))
        assert len((await peer.ask(metadata.API, 9, metadata.MetadataRequest(topics=None))).brokers) == 1
        await peer.send(request_frame(metadata.API, 10, 1, metadata.MetadataRequest(topics=None)))
        assert await peer.receive() is None


async def test_first_versions_of_topics() -> None:
    async with open_test_server(settings=acting(Emulation(RELEASES["2.1"]))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        for version in (0, 1):
            response = await peer.ask(create_topics.API, version, create_topic(f"t{version}", 1))
            assert (response.topics[0].name, response.topics[0].error_code) == (f"t{version}", 0)
        response = await peer.ask(create_topics.API, 1, create_topic("t1", 1))
        assert response.topics[0].error_message == "Topic 't1' already exists."
        everything = await peer.ask(metadata.API, 0, metadata.MetadataRequest(topics=[]))
        assert [topic.name for topic in everything.topics] == ["t0", "t1"]


@pytest.mark.parametrize(("name", "code"), [("2.4", ErrorCode.LEADER_NOT_AVAILABLE), ("2.8", 3)])
async def test_the_first_answer_about_a_topic_that_metadata_creates(name: str, code: int) -> None:
    async with open_test_server(settings=acting(Emulation(RELEASES[name]))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="new")])
        answers = [await peer.ask(metadata.API, 1, asked) for _ in range(2)]
        assert [answer.topics[0].error_code for answer in answers] == [code, 0]


BAD_RELEASES = {
    "28": (
        "there is no Kafka version '28' (there are 2.1, 2.4, 2.8, 3.0, 3.3, 3.6, 3.9, 4.0, 4.1, 4.2, 4.3); "
        "did you mean '2.8'?"
    ),
    "": "there is no Kafka version '' (there are 2.1, ",
    "0.11": f"there is no Kafka version '0.11' (there are {', '.join(RELEASES)}); the oldest is 2.1",
    "2.6.1": f"there is no Kafka version '2.6.1' (there are {', '.join(RELEASES)}); the nearest are 2.4 and 2.8",
    "3.9.2": f"there is no Kafka version '3.9.2' (there are {', '.join(RELEASES)}); did you mean '3.9'?",
    "4.10": f"there is no Kafka version '4.10' (there are {', '.join(RELEASES)}); the newest is 4.3",
    "3.6,3.3": "'3.3' is given twice",
    "a=2.1,A=2.4": "'A=2.4' is given twice",
    "client:a=2.1,client:a=2.4": "'client:a=2.4' is given twice",
    "=2.1": "'=2.1' names no listener and no client id",
    "client:=2.1": "'client:=2.1' names no listener and no client id",
}


@pytest.mark.parametrize("text", BAD_RELEASES)
def test_bad_releases(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(BAD_RELEASES[text])}"):
        decode_releases(text)


BAD_CAPS = {
    "Metadata": "'Metadata': API=VERSION is expected, such as Metadata=9",
    "Metadata=x": "'Metadata=x': API=VERSION is expected, such as Metadata=9",
    "Metadata=-1": "'Metadata=-1': API=VERSION is expected, such as Metadata=9",
    "Metdata=9": "there is no API 'Metdata'; did you mean 'Metadata'?",
    "Metadata=9,Metadata=8": "Metadata is given twice",
}


@pytest.mark.parametrize("text", BAD_CAPS)
def test_bad_caps(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(BAD_CAPS[text])}$"):
        decode_max_versions(text, {"Metadata": 3})
