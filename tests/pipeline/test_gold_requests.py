"""The requests of clients: counts, errors, latencies, refusals and coverage, from rows written for the test."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench import raw_client
from klamm import ServerProcess
from klamm.pipeline import schemas
from klamm.pipeline.gold import requests
from klamm.protocol.codec.requests import load_api

Plain = dict[str, Any]
LIMIT = "1 new replica beside the 3 on broker 2 would exceed the limits (max.broker.partitions=3, max.partitions=9)."


def _line(seq: int, **fields: Any) -> Plain:
    plain = {
        "cluster_id": "c",
        "seq": seq,
        "client_software_name": "ours",
        "client_software_version": "1",
        "api": "CreateTopics",
        "api_key": 19,
        "api_version": 7,
        "microseconds": 100 * seq,
        "errors": [],
    }
    return {**plain, **fields}


def _error(code: int, message: str | None = None, topic: str | None = "t") -> tuple[Any, ...]:
    return (topic, None, None, None, None, code, message)


LINES = [
    _line(0),
    _line(1, errors=[_error(44, LIMIT), _error(36, "Topic 't' already exists.")]),
    _line(2, errors=[_error(44, "Names begin with a letter.")]),
    _line(3, errors=[_error(36, "Topic 'u' already exists.", "u")], client_software_name="theirs"),
    _line(4, api="Metadata", api_key=3, api_version=12, errors=[_error(44)]),
    _line(5, api="ApiVersions", api_key=18, api_version=99, errors=[_error(35, topic=None)]),
    _line(6, api="ApiVersions", api_key=18, api_version=99, errors=[_error(35, topic=None)], client_software_name=None),
    _line(7, api="ApiVersions", api_key=18, api_version=3),
    {"cluster_id": None, "seq": None, "raw": "{", "problem": "half a line"},
]


@pytest.fixture(scope="module")
def asked(spark: SparkSession) -> DataFrame:
    rows = [tuple(line.get(name) for name in schemas.REQUEST.names) for line in LINES]
    return requests.sound_requests(spark.createDataFrame(rows, schemas.REQUEST)).localCheckpoint()


def _rows(table: DataFrame) -> list[Plain]:
    return [row.asDict() for row in table.collect()]


def test_refusals_name_the_limit_and_link_to_their_line(asked: DataFrame) -> None:
    [row] = _rows(requests.refused_requests(asked))
    assert (row["seq"], row["api"], row["topic_name"], row["error_message"]) == (1, "CreateTopics", "t", LIMIT)


def test_errors_are_counted_by_api_version_client_and_code(asked: DataFrame) -> None:
    rows = {
        (row["api"], row["api_version"], row["client_software_name"], row["error_code"]): row
        for row in _rows(requests.error_taxonomy(asked))
    }
    assert {key: row["count"] for key, row in rows.items()} == {
        ("CreateTopics", 7, "ours", 44): 2,
        ("CreateTopics", 7, "ours", 36): 1,
        ("CreateTopics", 7, "theirs", 36): 1,
        ("Metadata", 12, "ours", 44): 1,
        ("ApiVersions", 99, "ours", 35): 1,
        ("ApiVersions", 99, None, 35): 1,
    }
    refused = rows["CreateTopics", 7, "ours", 44]
    assert (refused["error_name"], refused["sample_seq"], refused["sample_message"]) == ("POLICY_VIOLATION", 1, LIMIT)


def test_latencies_are_exact_percentiles(asked: DataFrame) -> None:
    rows = {
        (row["api"], row["api_version"], row["client_software_name"]): row for row in _rows(requests.latency(asked))
    }
    ours = rows["CreateTopics", 7, "ours"]
    assert (ours["requests"], ours["p50_us"], ours["max_us"], ours["slowest_seq"]) == (3, 100.0, 200, 2)
    assert ours["p90_us"] == pytest.approx(180.0)
    assert sum(row["requests"] for row in rows.values()) == len(LINES) - 1


def test_clients_are_told_apart_by_id_software_and_principal(spark: SparkSession) -> None:
    limit, exists = _error(44, LIMIT), _error(36)
    lines = [
        _line(0, client_id="a", principal="User:x", throttle_time_ms=0, errors=[limit, exists]),
        _line(1, client_id="a", principal="User:x", throttle_time_ms=5, api="Metadata", errors=[limit]),
        _line(2, client_id="a", principal="User:y", throttle_time_ms=0),
        _line(3, client_id="b", principal="User:x", throttle_time_ms=1, client_software_name=None),
        _line(4, client_id="a", principal="User:x", throttle_time_ms=0),
    ]
    rows = [tuple(line.get(name) for name in schemas.REQUEST.names) for line in lines]
    found = {
        (row["client_id"], row["client_software_name"], row["principal"]): row
        for row in _rows(requests.clients(spark.createDataFrame(rows, schemas.REQUEST)))
    }
    names = ("requests", "apis", "errors", "refused", "throttled", "p50_us", "max_us", "first_seq", "slowest_seq")
    assert {key: tuple(row[name] for name in names) for key, row in found.items()} == {
        ("a", "ours", "User:x"): (3, 2, 3, 1, 1, 100.0, 400, 0, 4),
        ("a", "ours", "User:y"): (1, 1, 0, 0, 0, 200.0, 200, 2, 2),
        ("b", None, "User:x"): (1, 1, 0, 0, 1, 300.0, 300, 3, 3),
    }


def test_errors_refusals_and_latencies_say_who(spark: SparkSession) -> None:
    lines = [_line(n, client_id=f"c{n}", principal="User:x", errors=[_error(44, LIMIT)]) for n in (1, 2)]
    rows = [tuple(line.get(name) for name in schemas.REQUEST.names) for line in lines]
    two = spark.createDataFrame(rows, schemas.REQUEST)
    for table in (requests.error_taxonomy(two), requests.latency(two), requests.refused_requests(two)):
        assert sorted((row["client_id"], row["principal"]) for row in _rows(table)) == [
            ("c1", "User:x"), ("c2", "User:x"),
        ]  # fmt: skip


def test_coverage_has_every_version_and_what_was_asked_beside_them(spark: SparkSession, asked: DataFrame) -> None:
    declared = requests.declared_versions(spark)
    rows = {(row["api_key"], row["api_version"]): row for row in _rows(requests.coverage(asked, declared))}
    assert {row["cluster_id"] for row in rows.values()} == {"c"}
    for key in (3, 18, 19):
        api = load_api(key)
        assert api is not None
        assert {version for found, version in rows if found == key} - {99} == set(api.versions)
        assert all(rows[key, version]["api"] == api.name for version in api.versions)
    names = ("seen", "clients", "succeeded", "failed", "first_seq", "offered")
    reported = {key: tuple(row[name] for name in names) for key, row in rows.items() if row["seen"]}
    assert reported == {
        (19, 7): (4, 2, 1, 3, 0, True),
        (3, 12): (1, 1, 0, 1, 4, True),
        (18, 99): (2, 2, 0, 2, 5, False),
        (18, 3): (1, 1, 1, 0, 7, True),
    }
    assert rows[18, 99]["api"] == "ApiVersions"
    assert rows[19, 6]["offered"] is None


def test_requests_are_as_many_as_clients_counted(spark: SparkSession, tmp_path: Path) -> None:
    log, counted, errors = tmp_path / "requests.jsonl", Counter[tuple[str, int]](), Counter[int]()
    chance = Random(8)
    frames = (
        ("ApiVersions", raw_client.API_VERSIONS_VERSION, raw_client.api_versions_frame()),
        ("Metadata", raw_client.METADATA_VERSION, raw_client.metadata_frame(all_topics=True)),
        ("CreateTopics", raw_client.CREATE_TOPICS_VERSION, raw_client.create_topics_frame("t", 2, 1)),
        ("DeleteTopics", raw_client.DELETE_TOPICS_VERSION, raw_client.delete_topics_frame("t")),
    )
    with ServerProcess("--brokers", "2", "--request-log", str(log), warm=True) as server:
        host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
        exists = False
        for _ in range(3):
            with raw_client.RawClient((host, int(port))) as client:
                for name, version, frame in chance.choices(frames, k=100):
                    client.exchange(frame)
                    counted[name, version] += 1
                    if name in ("CreateTopics", "DeleteTopics"):
                        makes = name == "CreateTopics"
                        if makes is exists:
                            errors[36 if makes else 3] += 1
                        exists = makes
    bronze = spark.read.format("request-log").option("logs", str(log)).load()
    requested = requests.sound_requests(bronze).localCheckpoint()
    found = Counter[tuple[str, int]]()
    for row in requests.latency(requested).collect():
        found[row["api"], row["api_version"]] += row["requests"]
    assert found == counted
    failures = Counter[int]()
    for row in requests.error_taxonomy(requested).collect():
        failures[row["error_code"]] += row["count"]
    assert failures == errors
    assert bronze.where("problem is not null").count() == 0
