"""Events for operators: one per line, on stderr, in the configured format, at a limited rate."""

import io
import json
import sys
from datetime import UTC, datetime

import pytest
import trio
from trio.testing import MockClock

from klamm.server.event_log import REPEAT_SECONDS, EventLog, LogFormat


def boom() -> ValueError:
    try:
        raise ValueError("boom")
    except ValueError as error:
        return error


def test_a_json_event_is_one_line_with_its_members_and_its_traceback() -> None:
    stream = io.StringIO()
    events = EventLog("json", stream)
    events.warning("something happened", broker_id=3)
    events.exception("it failed", boom())
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["broker_id"]) == ("something happened", "warning", 3)
    assert second["level"] == "error"
    assert second["exception"].endswith("ValueError: boom")


def test_a_console_event_is_plain_text_where_nobody_sees_colours() -> None:
    stream = io.StringIO()
    events = EventLog("console", stream)
    events.info("something happened", broker_id=3)
    events.exception("it failed", boom())
    assert "something happened" in stream.getvalue()
    assert "broker_id=3" in stream.getvalue()
    assert "ValueError: boom" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_events_go_to_stderr_and_not_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    EventLog().warning("something happened")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "something happened" in captured.err


def test_a_stream_that_is_gone_stops_nobody() -> None:
    stream = io.StringIO()
    events = EventLog("console", stream)
    stream.close()
    events.warning("something happened")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_event_begins_with_its_time_in_utc(log_format: LogFormat) -> None:
    stream = io.StringIO()
    before = datetime.now(UTC)
    EventLog(log_format, stream).info("something happened")
    timestamp = json.loads(stream.getvalue())["timestamp"] if log_format == "json" else stream.getvalue().split(" ")[0]
    assert timestamp.endswith("Z")
    assert before <= datetime.fromisoformat(timestamp) <= datetime.now(UTC)


def test_an_event_is_told_also_where_no_files_are_left_to_import_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is then JSON in either format; a value without a JSON form is written as Python prints it."""
    monkeypatch.setitem(sys.modules, "structlog", None)
    stream = io.StringIO()
    EventLog("console", stream).exception("it failed", ValueError("boom"), broker_id=3)
    assert json.loads(stream.getvalue()) == {
        "level": "error",
        "event": "it failed",
        "broker_id": 3,
        "exc_info": "ValueError('boom')",
    }


async def test_what_clients_can_cause_is_told_rarely_and_counted(mock_clock: MockClock) -> None:
    stream = io.StringIO()
    events = EventLog("json", stream)
    for number in range(5):
        events.warning_rarely("bad request", number=number)
    events.exception_rarely("another event", boom(), number=5)
    mock_clock.jump(REPEAT_SECONDS)
    events.warning_rarely("bad request", number=6)
    await trio.lowlevel.checkpoint()
    logged = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(event["event"], event["number"], event.get("suppressed")) for event in logged] == [
        ("bad request", 0, None),
        ("another event", 5, None),
        ("bad request", 6, 4),
    ]


HOSTILE = "\x1b[2Jx\x9b31m\0\N{RIGHT-TO-LEFT OVERRIDE}y\N{LINE SEPARATOR}z"
SHOWN = r"\x1b[2Jx\x9b31m\x00\u202ey\u2028z"


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_what_a_client_sent_moves_no_cursor(log_format: LogFormat) -> None:
    stream = io.StringIO()
    events = EventLog(log_format, stream)
    events.warning(f"event {HOSTILE}", client_id=HOSTILE, client_ids=[HOSTILE])
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        events.exception("it failed", error, client_id=HOSTILE)
    written = stream.getvalue()
    assert all(line.isprintable() for line in written.split("\n")), ascii(written)
    if log_format == "console":
        assert written.count(SHOWN) >= 4
