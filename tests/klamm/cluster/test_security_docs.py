"""The examples of docs/security.md run: the suite, the commands, the files, and the clients that connect to them."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import pkcs12

import klamm
from klamm.controller.settings import SettingsError, load_settings
from tests.klamm.serve.processes import FREE, ROOT, SECONDS, first_line, serving
from tests.server.test_listener import free_ports_in_a_row

PAGE = (ROOT / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SUITE, AUTO_CLIENT, CLIENT = (text for language, text in BLOCKS if language == "python")
AUTO, OWN, ADDED, SCRAM = (text for language, text in BLOCKS if language == "sh")
(READY,) = (text for language, text in BLOCKS if not language)
(PROPERTIES,) = (text for language, text in BLOCKS if language == "properties")


def shown_client(program: str) -> AdminClient:
    """The client that the last statement of a program of the page makes."""
    *statements, expression = ast.parse(program).body
    assert isinstance(expression, ast.Expr)
    names: dict[str, Any] = {}
    exec(compile(ast.Module(statements, []), "docs/security.md", "exec"), names)
    client = eval(compile(ast.Expression(expression.value), "docs/security.md", "eval"), names)
    assert isinstance(client, AdminClient)
    return client


def test_all_blocks_of_the_page_are_run_here() -> None:
    assert sorted(language for language, _ in BLOCKS) == ["", "properties", *["python"] * 3, *["sh"] * 4]


def test_the_suite_shown_passes(tmp_path: Path) -> None:
    (tmp_path / SUITE.split()[1]).write_text(SUITE)
    options = ("-q", "--strict-markers", "-p", "klamm.testing.pytest_plugin", "-p", "no:cacheprovider")
    ended = subprocess.run(
        (sys.executable, "-P", "-m", "pytest", *options),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert (ended.returncode, "1 passed" in ended.stdout) == (0, True), ended.stdout


def test_certificates_are_made_as_shown_and_go_with_the_server() -> None:
    _, *options = shlex.split(AUTO)[1:]
    with serving(*options, *FREE) as process:
        assert process.stdout is not None
        servers, files = first_line(process), process.stdout.readline()
        shown = [re.sub(r"\d{4,5}\b|klamm-tls-\w+", "…", line) for line in READY.splitlines()]
        assert [re.sub(r"\d{4,5}\b|[^=]*klamm-tls-\w+", "…", line).rstrip() for line in (servers, files)] == [
            line.replace("/tmp/…", "…") for line in shown
        ]
        folder = Path(files.removeprefix("tls.files=").rstrip())
        assert {path.name for path in folder.iterdir()} >= {"ca.pem", "truststore.p12", "alice.pem"}
        trusted = pkcs12.load_pkcs12((folder / "truststore.p12").read_bytes(), b"klamm")
        assert len(trusted.additional_certs) == 1
        settings = AUTO_CLIENT.replace("127.0.0.1:9092", servers.partition("=")[2].rstrip())
        client = shown_client(re.sub(r"/tmp/klamm-tls-\w+", str(folder), settings))
        assert len(client.list_topics(timeout=SECONDS).brokers) == 3
        process.terminate()
        assert process.wait(SECONDS) == 0
        assert not folder.exists()


def test_listeners_with_kafka_s_settings_serve_the_client_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = free_ports_in_a_row(2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.properties").write_text(PROPERTIES.replace("9092", str(plain)).replace("9192", str(plain + 1)))
    *made, serve = OWN.splitlines()
    subprocess.run(("bash", "-e", "-c", "\n".join(made)), capture_output=True, timeout=SECONDS, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"server.properties", "key.pem", "ca.crt", "server.pem"}
    _, *options = shlex.split(serve)[1:]
    with serving(*options, "--request-log", "requests.jsonl") as process:
        assert "bootstrap.servers=" in first_line(process)
        client = shown_client(CLIENT.replace("9192", str(plain + 1)))
        assert len(client.list_topics(timeout=SECONDS).brokers) == 1
        process.terminate()
        assert process.wait(SECONDS) == 0
    asked = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert {line["principal"] for line in asked if line["api"] == "Metadata"} == {"User:alice"}


def test_a_new_cluster_has_the_user_of_scram_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.properties").write_text(
        "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=SCRAM-SHA-256\n"
        "inter.broker.listener.name=SASL_PLAINTEXT\n"
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
    )
    _, *options = shlex.split(ADDED)[1:]
    found = re.fullmatch(r"(SCRAM-SHA-256)=\[name=(.*),password=(.*),iterations=8192\]", options[-1])
    assert found
    with serving(*options) as process:
        servers = first_line(process).partition("=")[2].rstrip()
        client = AdminClient(
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": found[1],
                "sasl.username": found[2],
                "sasl.password": found[3],
            }
        )
        asked = client.describe_user_scram_credentials([found[2]])
        assert isinstance(asked, dict)
        described = asked[found[2]].result(SECONDS)
        assert [info.iterations for info in described.scram_credential_infos] == [8192]
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_the_first_user_of_scram_logs_in_with_the_password_shown() -> None:
    """Kafka's tool asks for what `alter_user_scram_credentials` asks for."""
    (line,) = SCRAM.replace("\\\n", "").splitlines()
    words = shlex.split(line)
    assert words[0] == "kafka-configs.sh"
    options = dict(pairwise(words))
    found = re.fullmatch(r"(SCRAM-SHA-512)=\[password=(.*)\]", options["--add-config"])
    assert found
    user, password = options["--entity-name"], found[2]
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": found[1],
        f"listener.name.sasl_plaintext.{found[1].lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    with klamm.ServerProcess(brokers=1, configs=configs, warm=True) as server:
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.alter_user_scram_credentials([change])[user].result(SECONDS)
        client = AdminClient(
            {
                "bootstrap.servers": server.listeners["SASL_PLAINTEXT"],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": found[1],
                "sasl.username": user,
                "sasl.password": password,
            }
        )
        assert len(client.list_topics(timeout=SECONDS).brokers) == 1


def test_the_settings_named_are_those_that_are_taken() -> None:
    """Names in the tables of TLS and SASL: a setting that Klamm does not know would be refused as misspelt."""
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z0-9.]+)`", row) if name.count(".") > 1}
    assert {"ssl.keystore.type", "ssl.client.auth", "sasl.enabled.mechanisms", "connections.max.reauth.ms"} <= named
    for name in named - {name for name in named if name.startswith(".")}:
        with pytest.raises(SettingsError) as refused:
            load_settings(None, {}, [f"{name}=\udc80"])
        assert "is not valid text" in str(refused.value)
