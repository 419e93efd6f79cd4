"""The control interface by HTTPS: throw-away certificates and of a file, clients that trust them, refusals."""

import http.client
import socket
import ssl
from pathlib import Path

import pytest

import klamm
from klamm.console.options import UsageError
from klamm.control.command import control_command, decode_control_options
from klamm.control.tls import control_tls
from klamm.controller.settings import SettingsError
from klamm.serve.options import decode_serve_options
from tests.klamm.serve.processes import refused

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
CA = CERTS / "ca.crt"
TOKEN = "correct-horse-battery-staple"


def test_throw_away_certificates_are_trusted_by_the_process_and_no_other_client(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with klamm.ServerProcess("--control-tls", "auto", brokers=1, control=True) as server:
        url = server.control_url
        assert url.startswith("https://127.0.0.1:")
        assert [broker.id for broker in server.brokers()] == [1]
        with pytest.raises(klamm.ControlUnreachable, match=r"TLS with .* failed: .*certificate"):
            klamm.ControlClient(url).brokers()
        with pytest.raises(klamm.ControlUnreachable, match=r"TLS with .* failed"):
            klamm.ControlClient(url, ca_file=CA).brokers()
        with pytest.raises(klamm.ControlUnreachable, match=r"ended the connection|cannot be reached"):
            klamm.ControlClient(url.replace("https", "http")).brokers()

        ca_file = server._control_ca
        for given, variables in ((["--ca-file", ca_file], {}), ([], {"KLAMM_CONTROL_CA": ca_file})):
            options = decode_control_options(["--url", url, "brokers", *given], variables)
            assert control_command(options) == 0
            assert "127.0.0.1" in capsys.readouterr().out
        assert control_command(decode_control_options(["--url", url, "brokers"], {})) == 2
        assert capsys.readouterr().err.count("\n") == 1
        monkeypatch.setenv("KLAMM_CONTROL_CA", ca_file)
        assert len(klamm.ControlClient(url).brokers()) == 1
    assert not Path(ca_file).exists(), "the certificates end with the server"


def test_the_certificate_of_a_file_is_used_and_the_token_is_still_needed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    arguments = ("--control-tls", str(CERTS / "server.pem"), "--control-token", str(token))
    with klamm.ServerProcess(*arguments, brokers=1, control=True) as server:
        url = server.control_url.replace("127.0.0.1", "localhost")
        assert len(klamm.ControlClient(url, TOKEN, ca_file=CA).brokers()) == 1
        with pytest.raises(klamm.ControlRefused, match="token is missing or wrong"):
            klamm.ControlClient(url, ca_file=CA).brokers()

        context = ssl.create_default_context(cafile=CA)
        host, port = url.removeprefix("https://").split(":")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.minimum_version = context.maximum_version = version
            connection = http.client.HTTPSConnection(host, int(port), context=context)
            origin = {"Authorization": f"Bearer {TOKEN}", "Origin": f"https://{host}:{port}"}
            connection.request("GET", "/brokers", headers=origin)
            assert connection.getresponse().status == 200
            connection.close()
            connection = http.client.HTTPSConnection(host, int(port), context=context)
            connection.request("GET", "/brokers", headers=origin | {"Origin": f"http://{host}:{port}"})
            assert connection.getresponse().status == 403
            connection.close()


def test_connections_without_tls_are_closed_and_harm_no_others() -> None:
    with klamm.ServerProcess("--control-tls", "auto", brokers=1, control=True) as server:
        port = int(server.control_url.rsplit(":", 1)[1])
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for sent in (b"GET /brokers HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x00\x05xxxxx", bytes(100)):
            with socket.create_connection(("127.0.0.1", port)) as raw:
                raw.settimeout(20)
                raw.sendall(sent)
                received = b""
                while chunk := raw.recv(4096):
                    received += chunk
                assert not received.startswith(b"HTTP")
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(
            klamm.ControlUnreachable, match=r"without an answer \(an address with TLS begins with https"
        ):
            klamm.ControlClient(url).brokers()
        assert len(server.brokers()) == 1
        for one in idle:
            one.settimeout(20)
            assert one.recv(1) == b"", "a handshake that does not begin ends after some seconds"
            one.close()
        assert server.stderr_text() == ""


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (None, "No such file or directory"),
        ("", "there is no private key in PEM"),
        (CA.read_text(), "there is no private key in PEM"),
        ((CERTS / "server-encrypted.pem").read_text(), "the password of the private key is missing or wrong"),
        ((CERTS / "server.pem").read_text() + (CERTS / "alice.pem").read_text(), "more than one private key"),
        ((CERTS / "server.pem").read_text().split("-----BEGIN CERT")[0], "there is no certificate in PEM"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(contents: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "control.pem"
    if contents is not None:
        file.write_text(contents)
    with pytest.raises(SettingsError) as raised:
        control_tls(file, ())
    assert str(raised.value) == f"control-tls: {file}: {said}"


def test_a_bad_file_opens_no_port_and_is_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "none.pem"
    printed = refused("serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--control-tls", str(file))
    assert printed == (2, "", f"klamm serve: control-tls: {file}: No such file or directory\n")


def test_without_an_interface_the_option_is_refused() -> None:
    with pytest.raises(UsageError, match="--control-tls: it is for the interface that --control"):
        decode_serve_options(["--control-tls", "auto"])


def test_bad_certificates_of_clients_are_one_clause(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory|is none in PEM")):
        with pytest.raises(ValueError, match=said):
            klamm.ControlClient("https://127.0.0.1:1", ca_file=path)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ValueError, match="there is none in PEM"):
        klamm.ControlClient("https://127.0.0.1:1", ca_file=empty)
    klamm.ControlClient("http://127.0.0.1:1", ca_file=empty)
