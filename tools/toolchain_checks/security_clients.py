"""Real clients log in: Java's, franz-go and kafkajs by every mechanism that they have, with right, wrong, revoked,
expired and rotated credentials while a server runs; and Kafka's tools with `--command-config`.

One process of each language makes all its clients: it reads what to do from stdin, line by line, and answers with a
line (tools/conformance: Logins.java, go/logins, node/logins.js).
"""

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from klamm.cluster.server_process import ServerProcess
from klamm.cluster.throw_away_tls import ThrowAwayTls, new_throw_away_tls
from tools.toolchain_checks.client_stories import BUILD_SECONDS, PROGRAMS, node_packages
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import cache, find_program
from tools.toolchain_checks.program import ended_group, run_program, with_variables
from tools.toolchain_checks.report import Report, expect, expect_none

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD, STRANGER = "alice", "alice-secret", "stranger"
TOOL_SECONDS: Final = 240.0
LOGIN_SECONDS, REFUSAL_SECONDS = 120, 4
"""A login may take long on a busy machine. A client that tries again until its time is over has little of it."""
TOKEN_MS, SHORT_TOKEN_MS = 600_000, 1_000
_PACKAGE: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
Ask = Callable[..., str]


class SecuredCluster:
    """A server with a listener of TLS and SASL, and one of TLS that wants certificates."""

    def __init__(self, server: ServerProcess, folder: Path, tls: ThrowAwayTls, foreign: ThrowAwayTls) -> None:
        self.ssl, self.sasl_ssl = server.bootstrap_servers, server.listeners["SASL_SSL"]
        self.ca, self.own, self.foreign = folder / "ca.pem", folder / "alice.pem", folder / "foreign.pem"
        self.ca.write_text(tls.ca)
        self.own.write_text(tls.users[USER])
        self.foreign.write_text(foreign.users[USER])


@contextmanager
def _cluster(folder: Path) -> Iterator[SecuredCluster]:
    tls, foreign = new_throw_away_tls((), (USER,)), new_throw_away_tls((), (USER,))
    keys = folder / "server.pem"
    keys.write_text(tls.key + tls.chain)
    trusted = folder / "trusted.pem"
    trusted.write_text(tls.ca)
    prefix = "listener.name.sasl_ssl."
    configs = {
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "delegation.token.secret.key": "key of tokens",
        "connection.failed.authentication.delay.ms": "10",
        f"{prefix}plain.sasl.jaas.config": f'{_MODULES["PLAIN"]} required user_{USER}="{PASSWORD}";',
        **{
            f"{prefix}{mechanism.lower()}.sasl.jaas.config": f"{_MODULES[mechanism]} required;"
            for mechanism in MECHANISMS[1:]
        },
    }
    added = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in MECHANISMS[1:3]]
    with ServerProcess(brokers=1, configs=configs, add_scram=added) as server:
        yield SecuredCluster(server, folder, tls, foreign)


def check_security_clients(report: Report, java: Java | None, folder: Path) -> None:
    """The clients of every language; Java's need the jars, the others do not."""
    folder.mkdir()
    claim = "{} logs in by every mechanism with right credentials, and not with wrong, unknown or expired ones"
    if java is not None:
        with report.check(claim.format("Java's admin client")), _cluster(_made(folder / "java")) as cluster:
            _check_java(java, cluster)
        with (
            report.check(
                "Kafka's tools connect with --command-config, and rotate and revoke credentials of clients that run"
            ),
            _cluster(_made(folder / "tools")) as cluster,
        ):
            _check_tools(java, cluster, folder)
    with report.check(claim.format("kgo (franz-go)")), _cluster(_made(folder / "go")) as cluster:
        program = cache() / "conformance-go-logins"
        go = find_program("go", "golang-go")
        run_program([go, "build", "-o", str(program), "./logins"], BUILD_SECONDS, folder=PROGRAMS / "go")
        _check_lines([str(program)], cluster, None)
    with report.check(claim.format("kafkajs")), _cluster(_made(folder / "node")) as cluster:
        environment = with_variables({"NODE_PATH": str(node_packages())})
        _check_lines([find_program("node", "nodejs"), str(PROGRAMS / "node" / "logins.js")], cluster, environment)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@contextmanager
def _asking(command: Sequence[str], environment: Mapping[str, str] | None) -> Iterator[Ask]:
    """Gives a program a line and returns its answer."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    to, answers = process.stdin, process.stdout

    def ask(client: str, **members: Any) -> str:
        to.write(json.dumps({"client": client, "seconds": LOGIN_SECONDS, **members}).encode() + b"\n")
        to.flush()
        return answers.readline().decode().strip()

    with ended_group(process):
        yield ask


def _token(name: str = USER, seconds: int = 600) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": name, "iat": now - 1_000, "exp": now + seconds})
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."


def _check_lines(command: Sequence[str], cluster: SecuredCluster, environment: Mapping[str, str] | None) -> None:
    """Clients of which each line has the members."""
    of_sasl = {"servers": cluster.sasl_ssl, "ca": str(cluster.ca)}
    of_tls = {"servers": cluster.ssl, "ca": str(cluster.ca)}
    with _asking(command, environment) as ask:
        wrong = []
        for mechanism in MECHANISMS:
            tries = [({"user": USER, "password": PASSWORD}, True), ({"user": USER, "password": "wrong"}, False),
                     ({"user": STRANGER, "password": PASSWORD}, False)]  # fmt: skip
            if mechanism == "OAUTHBEARER":
                tries = [
                    ({"token": _token()}, True),
                    ({"token": _token(seconds=-10)}, False),
                    ({"token": "a.b.c"}, False),
                ]
            for members, is_right in tries:
                seconds = LOGIN_SECONDS if is_right else REFUSAL_SECONDS
                answer = ask(mechanism, mechanism=mechanism, seconds=seconds, **of_sasl, **members)
                if answer.startswith("ok 1") is not is_right:
                    wrong.append(f"{mechanism} {members}: {answer}")
        for certificate, is_right in ((cluster.own, True), (cluster.foreign, False), (None, False)):
            members = {} if certificate is None else {"certificate": str(certificate)}
            seconds = LOGIN_SECONDS if is_right else REFUSAL_SECONDS
            answer = ask("certificate", seconds=seconds, **of_tls, **members)
            if answer.startswith("ok 1") is not is_right:
                wrong.append(f"certificate {certificate}: {answer}")
        expect_none(wrong, "other answers than expected")


def _settings(cluster: SecuredCluster, mechanism: str, options: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.sasl_ssl,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.ca),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_MODULES[mechanism]} required {options};",
    }


def _with_password(cluster: SecuredCluster, mechanism: str, user: str, password: str, more: str = "") -> dict[str, str]:
    return _settings(cluster, mechanism, f'username="{user}" password="{password}"{more}')


def _command(java: Java) -> list[str]:
    return [java.program, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", java.class_path, "Logins"]  # fmt: skip


def _check_java(java: Java, cluster: SecuredCluster) -> None:
    with _asking(_command(java), None) as ask:
        wrong = []

        def tries(name: str, settings: Mapping[str, str], *starts: str, seconds: int = LOGIN_SECONDS) -> None:
            answer = ask(name, settings=settings, seconds=seconds)
            if not answer.startswith(starts):
                wrong.append(f"{name}: {answer}")

        refused = "refused SaslAuthenticationException"
        for mechanism in MECHANISMS[:3]:
            tries(mechanism, _with_password(cluster, mechanism, USER, PASSWORD), "ok 1")
            tries("wrong", _with_password(cluster, mechanism, USER, "wrong"), refused)
            tries("unknown", _with_password(cluster, mechanism, STRANGER, PASSWORD), refused)
        of_token = f'unsecuredLoginStringClaim_sub="{USER}"'
        tries("OAUTHBEARER", _settings(cluster, "OAUTHBEARER", of_token), "ok 1")
        tls = {"bootstrap.servers": cluster.ssl, "security.protocol": "SSL", "ssl.truststore.type": "PEM",
               "ssl.truststore.location": str(cluster.ca), "ssl.keystore.type": "PEM"}  # fmt: skip
        tries("certificate", {**tls, "ssl.keystore.location": str(cluster.own)}, "ok 1")
        tries("foreign certificate", {**tls, "ssl.keystore.location": str(cluster.foreign)}, "refused Ssl")
        del tls["ssl.keystore.type"]
        tries("no certificate", tls, "refused Ssl")
        token_id, hmac = ask("SCRAM-SHA-256", token=TOKEN_MS).split()
        for mechanism in MECHANISMS[1:3]:
            settings = _with_password(cluster, mechanism, token_id, hmac, ' tokenauth="true"')
            tries("delegation token", settings, "ok 1")
        tries("token as a user", _with_password(cluster, "SCRAM-SHA-256", token_id, hmac), refused)
        token_id, hmac = ask("SCRAM-SHA-256", token=SHORT_TOKEN_MS).split()
        time.sleep(1.2 * SHORT_TOKEN_MS / 1000)
        # As in Kafka, the login succeeds and the session is over at once, so the client tries until its time is over.
        expired = _with_password(cluster, "SCRAM-SHA-256", token_id, hmac, ' tokenauth="true"')
        tries("expired token", expired, "failed TimeoutException", "refused", seconds=REFUSAL_SECONDS)
        expect_none(wrong, "other answers than expected")


def _check_tools(java: Java, cluster: SecuredCluster, folder: Path) -> None:
    mechanism = "SCRAM-SHA-256"
    file = folder / "client.properties"
    settings = _with_password(cluster, "PLAIN", USER, PASSWORD)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    common = ("--bootstrap-server", cluster.sasl_ssl, "--command-config", str(file))
    user = ("--alter", "--entity-type", "users", "--entity-name", USER)
    topic = ("--create", "--topic", "secured", "--partitions", "1")
    java.run("secured-topics", "org.apache.kafka.tools.TopicCommand", [*common, *topic], TOOL_SECONDS)
    with _asking(_command(java), None) as ask:
        old = _with_password(cluster, mechanism, USER, PASSWORD)
        new = _with_password(cluster, mechanism, USER, "rotated")
        expect(ask("old", settings=old).startswith("ok"), "the first password is not taken")
        rotated = ("--add-config", f"{mechanism}=[password=rotated]")
        java.run("rotate", "kafka.admin.ConfigCommand", [*common, *user, *rotated], TOOL_SECONDS)
        expect(ask("old").startswith("ok"), "a connection that is open does not go on")
        expect(ask("again", settings=old).startswith("refused Sasl"), "the former password is taken")
        expect(ask("new", settings=new).startswith("ok"), "the new password is not taken")
        revoked = ("--delete-config", mechanism)
        java.run("revoke", "kafka.admin.ConfigCommand", [*common, *user, *revoked], TOOL_SECONDS)
        expect(ask("again", settings=new).startswith("refused Sasl"), "the revoked password is taken")
