"""No output of a server has the secrets of its configs and clients: stderr, the request log, DescribeConfigs, the
metadata log, the journal with bodies, the metrics and the page of the control interface, reports about twins."""

import base64
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import klamm
from klamm.__main__ import main
from klamm.controller.transitions.scram import credential_of
from klamm.protocol.codec.messages import encode_message
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.messages.brokers import envelope
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.raft import fetch_snapshot
from klamm.protocol.messages.security import alter_user_scram_credentials, sasl_authenticate, sasl_handshake
from klamm.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from klamm.protocol.messages.tokens import create_delegation_token, describe_delegation_token, renew_delegation_token
from klamm.protocol.records.data import DefaultPrincipalData
from klamm.protocol.uuid import METADATA_TOPIC_ID
from tests.server.harness import Peer

SALTED = bytes(range(100, 132))
KEYS = credential_of(1, SALTED, b"salt", 4096)
SECONDS = 20
SECRET = "hunter2"


def login(servers: str, user: str, password: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": "0",
    }


CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
TLS = {
    "listener.name.ssl.ssl.keystore.location": str(CERTS / "server.jks"),
    "listener.name.ssl.ssl.keystore.password": "store-secret",
    "ssl.key.password": "key-secret",
    "listener.name.inline.ssl.keystore.type": "PEM",
    "listener.name.inline.ssl.keystore.location": str(CERTS / "server-encrypted.pem"),
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,INLINE:SSL",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


async def token_of_alice(servers: str) -> bytes:
    """The HMAC of a new delegation token of alice, which was renewed and described, too."""
    host, _, port = servers.rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        peer = Peer(stream)
        await peer.ask(sasl_handshake.API, 1, sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"))
        proof = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=f"\0alice\0{SECRET}".encode())
        assert (await peer.ask(sasl_authenticate.API, 2, proof)).error_code == 0
        made = await peer.ask(create_delegation_token.API, 3, create_delegation_token.CreateDelegationTokenRequest())
        renewal = renew_delegation_token.RenewDelegationTokenRequest(hmac=made.hmac)
        assert (await peer.ask(renew_delegation_token.API, 2, renewal)).error_code == 0
        everyone = describe_delegation_token.DescribeDelegationTokenRequest(owners=None)
        assert (await peer.ask(describe_delegation_token.API, 3, everyone)).tokens[0].hmac == made.hmac
        return bytes(made.hmac)


def control_pages(url: str) -> dict[str, str]:
    """What every address of the control interface shows that can be read without a parameter."""
    with urlopen(f"{url}/openapi.json", timeout=SECONDS) as answer:
        paths = json.load(answer)["paths"]
    pages, refused = {}, {}
    for path in (path for path, verbs in paths.items() if "get" in verbs and "{" not in path):
        try:
            with urlopen(url + path, timeout=SECONDS) as answer:
                pages[path] = answer.read().decode(errors="replace")
        except HTTPError as error:
            refused[path] = error.code
            error.close()
    # The server has no limit of partitions, and is no twin. The events are read with a parameter.
    assert refused == {"/page/events": 400, "/partition-limit": 409, "/twin": 409}
    assert {"/metrics", "/", "/page/snapshot", "/requests", "/brokers"} <= pages.keys()
    return pages


def reports_of_twin(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What `klamm try` prints about the data directory."""
    (data_dir.parent / "changes.json").write_text('{"steps": [{"lose-broker": 1}]}')
    reports = {}
    for output in ("text", "json", "html"):
        main(["try", "--twin", str(data_dir), str(data_dir.parent / "changes.json"), "--output", output])
        reports[f"klamm try, {output}"] = "".join(capsys.readouterr())
        assert "partitions" in reports[f"klamm try, {output}"]
    return reports


def test_no_output_of_a_server_has_its_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = {
        **TLS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,INLINE://127.0.0.1:0",
        "inter.broker.listener.name": "INLINE",
        "sasl.enabled.mechanisms": "PLAIN",
        "delegation.token.secret.key": f"{SECRET}-tokens",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (f'{PLAIN} required user_alice="{SECRET}";'),
    }
    log, data_dir = tmp_path / "requests", tmp_path / "data"
    with klamm.ServerProcess(brokers=1, configs=configs, request_log=log, data_dir=data_dir, control=True,
            client_telemetry=True, journal_bodies=True, warm=True) as server:  # fmt: skip
        alice = AdminClient(login(server.bootstrap_servers, "alice", SECRET))
        resource = ConfigResource(ResourceType.BROKER, "1")
        described = alice.describe_configs([resource])[resource].result(SECONDS)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("bob", info, SECRET.encode(), salt=b"salt")
        alice.alter_user_scram_credentials([change])["bob"].result(SECONDS)
        salted = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), b"salt", 4096)
        with pytest.raises(KafkaException):
            AdminClient(login(server.bootstrap_servers, "alice", f"{SECRET}-wrong")).list_topics(timeout=2)
        hmac = trio.run(token_of_alice, server.bootstrap_servers)
        requests = repr([(one.api, one.request, one.response) for one in server.requests()])
        pages = control_pages(server.control_url)
    assert described["listener.name.sasl_plaintext.plain.sasl.jaas.config"].is_sensitive
    assert described["delegation.token.secret.key"].value is None
    outputs = {
        **pages,
        **reports_of_twin(data_dir, capsys),
        "DescribeConfigs": repr({name: entry.value for name, entry in described.items()}),
        "stderr": server.stderr_text(),
        "requests": requests,
        "request log": log.read_text(),
        **{str(file): file.read_bytes().decode(errors="replace") for file in data_dir.rglob("*") if file.is_file()},
    }
    assert "authentication failed" in outputs["stderr"]
    assert "saltedPassword" in outputs["requests"]
    assert "RenewDelegationToken" in outputs["requests"]
    key = "".join((CERTS / "server-encrypted.pem").read_text().split("-----")[2].split())
    hidden = (
        *(SECRET, "store-secret", "key-secret", key[:20], key[-20:]),
        *(form for one in (salted, hmac) for form in (one.hex(), repr(one)[2:-1], base64.b64encode(one).decode())),
        base64.b64encode(SECRET.encode())[:8].decode(),
    )
    assert [name for name, text in outputs.items() if any(secret in text for secret in hidden)] == []


def decoded(value: object) -> bytes:
    """All texts in a JSON value, as they are and decoded from base64, one behind the other."""
    if isinstance(value, dict):
        return b"".join(decoded(inner) for pair in value.items() for inner in pair)
    if isinstance(value, list):
        return b"".join(map(decoded, value))
    text = str(value)
    found = text.encode()
    with suppress(ValueError):
        found += base64.b64decode(text, altchars=b"-_" if "-" in text or "_" in text else None, validate=True)
    return found + b"\n"


async def test_the_keys_of_scram_are_in_no_output_also_if_the_metadata_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    change = AlterUserScramCredentialsRequest(upsertions=[
        ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED)
    ])  # fmt: skip
    async with klamm.Cluster(
        brokers=1, controller_listener="127.0.0.1:0", journal_bodies=True, request_log=log, data_dir=tmp_path / "data"
    ) as cluster:
        host, _, port = cluster.controller_bootstrap_servers.rpartition(":")
        reader = Peer(await trio.open_tcp_stream(host, int(port)))
        embedded = encode_request(alter_user_scram_credentials.API, 0, 1, "forwarded", change)
        data = b"\0\0" + encode_message(DefaultPrincipalData(type="User", name="alice"), 0, flexible=True)
        wrapped = envelope.EnvelopeRequest(
            request_data=bytes(embedded), request_principal=data, client_host_address=bytes([127, 0, 0, 1])
        )
        assert (await reader.ask(envelope.API, 0, wrapped)).error_code == 0
        partition = fetch.FetchPartition(
            current_leader_epoch=cluster._up._parts.controller.identity.leader_epoch,
            last_fetched_epoch=0,
            partition_max_bytes=1 << 20,
        )
        for version, topic in (
            (12, fetch.FetchTopic(topic="__cluster_metadata", partitions=[partition])),
            (17, fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])),
        ):
            request = fetch.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[topic])
            if version < 15:
                request.replica_id = 7
            else:
                request.replica_state = fetch.ReplicaState(replica_id=7)
            answer = await reader.ask(fetch.API, version, request)
            assert KEYS.stored_key in bytes(answer.responses[0].partitions[0].records), "the log has it"
        taken = await cluster.snapshot()
        snapshot_id = fetch_snapshot.SnapshotId(end_offset=taken.end_offset, epoch=partition.current_leader_epoch)
        wanted = fetch_snapshot.PartitionSnapshot(
            current_leader_epoch=partition.current_leader_epoch, snapshot_id=snapshot_id
        )
        named = fetch_snapshot.TopicSnapshot(name="__cluster_metadata", partitions=[wanted])
        snapshot = await reader.ask(
            fetch_snapshot.API, 1, fetch_snapshot.FetchSnapshotRequest(max_bytes=1 << 20, topics=[named])
        )
        assert KEYS.stored_key in bytes(snapshot.topics[0].partitions[0].unaligned_records)
        await reader.aclose()
        await cluster.wait_for_requests(api="FetchSnapshot")
        lines = [[one.api, one.request, one.response] for one in await cluster.requests()]
    assert {"Fetch", "FetchSnapshot", "Envelope", "AlterUserScramCredentials"} <= {str(line[0]) for line in lines}
    shown = {"journal": decoded(lines), "request log": log.read_bytes()}
    for name, text in shown.items():
        for secret in (SALTED, KEYS.stored_key, KEYS.server_key):
            forms = (secret, secret.hex().encode(), repr(secret)[2:-1].encode(), base64.b64encode(secret)[:-4])
            assert not any(form in text for form in forms), name
