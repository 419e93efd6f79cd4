"""Arguments of `--add-scram` are taken and refused as by Apache Kafka 4.3.0, and become records of a new log alone."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import klamm
from klamm.cluster.options import checked_options
from klamm.cluster.security_options import MAX_ADDED_CREDENTIALS
from klamm.controller.transitions.first_credentials import decode_first_credential, first_credentials
from klamm.protocol.records.security import UserScramCredentialRecord

CASES = [
    line.split("\t")
    for line in (Path(__file__).parent / "add_scram.tsv").read_text().splitlines()
    if not line.startswith("#")
]
EMPTY_NAME = "SCRAM-SHA-256=[name=,password=secret]"
"""Apache Kafka takes it, although such a user could not log in."""


def test_the_table_has_both() -> None:
    assert {case[1] for case in CASES} == {"ok", "refused"}
    assert len(CASES) > 80


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_an_argument_is_taken_as_by_apache_kafka(case: list[str]) -> None:
    argument, verdict, *expected = case
    if verdict == "refused" or argument == EMPTY_NAME:
        with pytest.raises(ValueError, match=r".") as refused:
            decode_first_credential(argument)
        assert "secret" not in str(refused.value)
        assert "\n" not in str(refused.value)
        return
    (record,) = first_credentials([argument], lambda count: bytes(range(count)))
    assert isinstance(record, UserScramCredentialRecord)
    name, mechanism, iterations, salt, stored_key, server_key = expected
    assert [record.name, str(record.mechanism), str(record.iterations)] == [name, mechanism, iterations]
    if salt == "-":
        assert record.salt == bytes(range(20))
    else:
        assert [record.salt.hex(), record.stored_key.hex(), record.server_key.hex()] == [salt, stored_key, server_key]


def test_salts_and_numbers_have_limits() -> None:
    for count, taken in ((1_024, True), (1_025, False)):
        text = f"SCRAM-SHA-256=[name=a,password=b,salt={base64.b64encode(bytes(count)).decode()}]"
        if taken:
            assert decode_first_credential(text).salt == bytes(count)
        else:
            with pytest.raises(ValueError, match="more than 1024 bytes"):
                decode_first_credential(text)
    one = "SCRAM-SHA-256=[name=a,password=b]"
    assert len(checked_options({"add_scram": [one] * MAX_ADDED_CREDENTIALS}).add_scram) == MAX_ADDED_CREDENTIALS
    with pytest.raises(ValueError, match="at most 1000"):
        checked_options({"add_scram": [one] * (MAX_ADDED_CREDENTIALS + 1)})


@pytest.mark.parametrize("value", ["SCRAM-SHA-256=[name=a,password=b]", 5, [5], ["SCRAM-SHA-256=[name=key-word]"]])
def test_other_values_of_the_option_are_one_clause_without_secrets(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^SCRAM credentials?: ") as refused:
        checked_options({"add_scram": value})
    assert "key-word" not in str(refused.value)


def test_secrets_are_not_in_the_text_of_options() -> None:
    options = checked_options({"add_scram": ["SCRAM-SHA-256=[name=a,password=secret]"]})
    assert "secret" not in repr(options)
    assert "secret" not in repr(decode_first_credential("SCRAM-SHA-256=[name=a,password=secret]"))


SCRAM = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
CONFIGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
}


@asynccontextmanager
async def cluster_with(data_dir: Path, *arguments: str) -> AsyncIterator[str]:
    async with klamm.Cluster(brokers=1, configs=CONFIGS, add_scram=arguments, data_dir=data_dir) as cluster:
        yield cluster.bootstrap_servers


async def logs_in(servers: str, password: str, user: str = "alice") -> bool:
    try:
        async with klamm.AdminClient(servers, user=user, password=password, mechanism="SCRAM-SHA-256"):
            return True
    except klamm.AuthenticationFailed:
        return False


async def test_a_new_cluster_begins_with_the_credentials_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    first = ("SCRAM-SHA-256=[name=alice,password=first,iterations=8192]", "SCRAM-SHA-256=[name=bob,password=b]")
    async with cluster_with(tmp_path, *first) as servers:
        assert await logs_in(servers, "first")
        assert await logs_in(servers, "b", "bob")
        assert not await logs_in(servers, "second")
    async with cluster_with(tmp_path, "SCRAM-SHA-256=[name=alice,password=second]") as servers:
        assert await logs_in(servers, "first")
        assert not await logs_in(servers, "second")


async def test_the_last_argument_about_a_user_counts(tmp_path: Path) -> None:
    async with cluster_with(tmp_path, *(f"SCRAM-SHA-256=[name=alice,password={word}]" for word in "ab")) as servers:
        assert not await logs_in(servers, "a")
        assert await logs_in(servers, "b")


def test_the_same_seed_gives_the_same_salts(tmp_path: Path) -> None:
    logs = []
    for name in ("one", "two"):
        arguments = ("--seed", "7", "--start-ms", "50", "--data-dir", str(tmp_path / name))
        with klamm.ServerProcess(*arguments, brokers=1, add_scram=["SCRAM-SHA-512=[name=alice,password=first]"]):
            pass
        text = b"".join(path.read_bytes() for path in sorted((tmp_path / name).rglob("*.log")))
        assert b"alice" in text
        assert b"first" not in text
        start = text.index(b"alice")
        logs.append(text[start : start + 100])
    assert logs[0] == logs[1]
