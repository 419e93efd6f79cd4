"""The token of a control interface: required where other machines can reach it, never shown in a refusal."""

import os
import stat
from pathlib import Path

import pytest

import klamm
from klamm.control.command import control_command, decode_control_options
from klamm.control.tokens import new_token, read_token
from klamm.server.addresses import Address
from tests.klamm.control.control_cluster import controlled_cluster

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(stat.S_IRUSR)
    return file


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200), (f"bearer {TOKEN}", 401), (TOKEN, 401), ("Bearer ", 401), (f"Bearer {TOKEN} ", 401),
        (f"Bearer {TOKEN[:-1]}", 401), (f"Bearer {TOKEN}x", 401), ("Bearer é", 401), (None, 401),
    ],
)  # fmt: skip
async def test_each_request_needs_the_token(header: str | None, status: int) -> None:
    async with controlled_cluster(brokers=1, listen=Address("0.0.0.0", 0), token=TOKEN) as cluster:
        for path in ("/brokers", "/openapi.json", "/nothing"):
            headers = {"Host": "klamm.internal"} | ({} if header is None else {"Authorization": header})
            got, answered, content = await cluster.respond("GET", path, headers=headers)
            assert got == (404 if status == 200 and path == "/nothing" else status)
            assert (answered.get("www-authenticate") == "Bearer") == (got == 401)
            assert TOKEN.encode() not in content


async def test_a_page_of_the_interface_itself_may_ask_with_the_token() -> None:
    async with controlled_cluster(brokers=1, listen=Address("0.0.0.0", 0), token=TOKEN) as cluster:
        own = {"Host": "klamm.internal:80", "Origin": "http://klamm.internal:80", "Authorization": f"Bearer {TOKEN}"}
        assert (await cluster.ask("GET", "/brokers", headers=own))[0] == 200
        foreign = own | {"Origin": "http://elsewhere.example"}
        assert (await cluster.ask("GET", "/brokers", headers=foreign))[0] == 403


def test_an_address_that_others_reach_needs_a_token_which_stderr_has_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLAMM_CONTROL_TOKEN", raising=False)
    with klamm.ServerProcess("--control", "0.0.0.0:0", brokers=1, control=True, warm=True) as server:
        with pytest.raises(klamm.ControlRefused, match="the control token is missing or wrong") as refused:
            server.brokers()
        assert refused.value.status == 401
        (line,) = server.stderr_text().splitlines()
        start = "klamm serve: the control interface needs the token "
        assert line.startswith(start)
        token = line.removeprefix(start)
        assert len(klamm.ControlClient(server.control_url, token).brokers()) == 1
        monkeypatch.setenv("KLAMM_CONTROL_TOKEN", token)
        assert len(server.brokers()) == 1
        assert control_command(decode_control_options(("--url", server.control_url, "brokers"), os.environ)) == 0
        wrong = {"KLAMM_CONTROL_TOKEN": "x" * 20}
        assert control_command(decode_control_options(("--url", server.control_url, "brokers"), wrong)) == 1


def test_a_token_is_read_from_a_file(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLAMM_CONTROL_TOKEN", raising=False)
    with klamm.ServerProcess("--control-token", str(token_file), brokers=1, control=True, warm=True) as server:
        assert len(server.brokers()) == 1
        assert TOKEN not in server.stderr_text()
        with pytest.raises(klamm.ControlRefused):
            klamm.ControlClient(server.control_url).brokers()
        words = ("--url", server.control_url, "--token-file", str(token_file), "brokers")
        assert control_command(decode_control_options(words, {})) == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("short", "16 to 256 characters"),
        ("x" * 257, "16 to 256"),
        ("two words of a token", "punctuation"),
        ("é" * 20, "not ASCII"),
    ],
)
def test_what_is_no_token_is_refused_without_showing_it(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(ValueError, match=reason) as refused:
        read_token(file)
    assert content not in str(refused.value)
    with pytest.raises(ValueError, match="No such file"):
        read_token(tmp_path / "none")
    server = klamm.ServerProcess("--control-token", str(file), control=True, warm=True)
    with pytest.raises(klamm.ServerFailed, match=reason), server:
        pass


def test_a_loopback_address_can_have_a_token_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLAMM_CONTROL_TOKEN", raising=False)
    arguments = ("--control-token", "--brokers", "1", "--control", "127.0.0.1:0")
    with klamm.ServerProcess(*arguments, warm=True) as server:
        token = server.stderr_text().split()[-1]
        with pytest.raises(klamm.ControlRefused):
            server.brokers()
        assert len(klamm.ControlClient(server.control_url, token).brokers()) == 1


def test_new_tokens_are_long_and_differ() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert min(len(new_token()) for _ in range(100)) >= 32
