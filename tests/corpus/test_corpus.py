"""What the fuzzers once found is found no more: every file beside this one is tried."""

from pathlib import Path
from typing import Any

import pytest

from tools.fuzzing.codec_cases import case_of_line
from tools.fuzzing.codec_rules import check
from tools.fuzzing.corpus import CORPUS, kept
from tools.fuzzing.live_server import LiveServer
from tools.fuzzing.sessions import session_of_line

CODEC = dict(kept(CORPUS / "codec"))
SERVER = dict(kept(CORPUS / "server"))


@pytest.mark.parametrize("line", CODEC.values(), ids=CODEC)
def test_the_codec_gives_a_value_or_a_protocol_error(line: dict[str, Any]) -> None:
    check(case_of_line(line), memory=True)


@pytest.mark.parametrize("line", SERVER.values(), ids=SERVER)
def test_the_server_answers_on_and_logs_no_bug(line: dict[str, Any]) -> None:
    with LiveServer() as server:
        server.play(session_of_line(line))


def test_the_files_are_small_and_there_are_some() -> None:
    assert CODEC
    assert SERVER
    assert all(path.stat().st_size < 64_000 for path in Path(CORPUS).rglob("*.json"))
