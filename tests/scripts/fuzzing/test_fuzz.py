"""`scripts/fuzz`: what its rules notice, and that what it makes is what it should be, without the fuzzers' tools."""

import json
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import ProtocolError, Uuid, decode_request, encode_message, encode_request, load_api
from klamm.protocol.codec.schema import schema
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, metadata
from tests.protocol.strategies import all_schemas
from tools.fuzzing import codec_rules
from tools.fuzzing.broken import Broken
from tools.fuzzing.codec_cases import CodecCase, all_kinds, case_of_fuzzer, case_of_line
from tools.fuzzing.codec_rules import check
from tools.fuzzing.corpus import keep, kept, minimised
from tools.fuzzing.hunt import Hunt
from tools.fuzzing.mutations import mutated
from tools.fuzzing.pieces import joined, message_pieces, request_pieces
from tools.fuzzing.seeds import chosen_cases, golden_cases
from tools.fuzzing.session_making import make_session
from tools.fuzzing.sessions import Expected, Step, expectations, judge, play, session_of_line, session_to_line
from tools.fuzzing.values import Values

ROOT = Path(__file__).parents[3]
SCHEMAS = list(all_schemas())
IDS = tuple(Uuid(bytes([number]) * 16) for number in (1, 2, 3))
API_VERSIONS = encode_request(api_versions.API, 0, 5, "x", api_versions.ApiVersionsRequest())
ANSWERED = Expected(api_versions.API, 0, 5)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def test_every_api_and_record_is_among_the_seeds_and_keeps_all_promises() -> None:
    cases = golden_cases()
    assert {(case.kind, case.key) for case in cases} == set(all_kinds())
    assert {(case.kind, case.key) for case in chosen_cases(0, 1)} == set(all_kinds())
    assert len(chosen_cases(10**6, 1)) == len(cases) > 1300
    for case in chosen_cases(0, 2):
        assert check(case, memory=True) is None, case


def test_a_case_has_three_forms() -> None:
    for case in chosen_cases(0, 3):
        assert case_of_fuzzer(case.to_fuzzer()) == case
        assert case_of_line(json.loads(json.dumps(case.to_line("found")))) == case
    assert case_of_fuzzer(b"\xff" * 20) is None
    assert case_of_fuzzer(b"\0\0") is None
    with pytest.raises(ValueError, match="no request"):
        case_of_line({"kind": "request", "api": "Nope", "version": 0, "hex": ""})


@pytest.mark.parametrize("kind", ["request", "response", "record", "control", "data", "batch", "stream"])
def test_any_bytes_keep_all_promises(kind: str) -> None:
    chance = random.Random(kind)
    cases = [case for case in golden_cases() if case.kind == kind]
    values = errors = 0
    for _ in range(150):
        case = chance.choice(cases)
        data = bytearray(case.data or b"\0")
        data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255))
        is_value = check(case.with_data(bytes(data))) is None
        values += is_value
        errors += not is_value
    assert errors
    assert values or kind == "batch"


def _leak(*_: object) -> None:
    raise IndexError("leaked")


def _nowhere(*_: object) -> None:
    raise ProtocolError("wrong")


@pytest.mark.parametrize(
    ("broken", "promise"), [(_leak, "IndexError from .*_leak"), (_nowhere, "an error that does not say where")]
)
def test_another_exception_and_an_error_without_a_place_are_noticed(
    monkeypatch: pytest.MonkeyPatch, broken: object, promise: str
) -> None:
    monkeypatch.setattr(codec_rules, "decode_metadata_value", broken)
    with pytest.raises(Broken, match=promise):
        check(CodecCase("record", 2, 0, b"\1"))


def test_schemas_that_disagree_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    message_class, wrong = create_topics.CreateTopicsRequest, create_topics.CreateTopicsResponse
    data = encode_message(message_class(), 7, True)
    monkeypatch.setattr(codec_rules, "schema", lambda _, *rest: schema(wrong, *rest))
    with pytest.raises(Broken, match=r"(only the compiled schema gives a value)|(schema differ)"):
        codec_rules.check_message(message_class, 7, True, data, 0)


def test_time_and_memory_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chosen_cases(0, 4)[0]
    monkeypatch.setattr(codec_rules, "MAX_CPU_SECONDS", 0.0)
    with pytest.raises(Broken, match="more than 0 s"):
        check(case)
    monkeypatch.setattr(codec_rules, "MAX_CPU_SECONDS", 5.0)
    monkeypatch.setattr(codec_rules, "MAX_MEMORY_BYTES", -(10**6))
    assert check(case) is None
    with pytest.raises(Broken, match="more memory than stated"):
        check(case, memory=True)


@given(st.sampled_from(SCHEMAS), st.randoms(use_true_random=False))
def test_the_pieces_of_a_message_are_its_bytes(schema: tuple[type, int, bool], chance: random.Random) -> None:
    message_class, version, flexible = schema
    message = Values(chance, IDS).message(message_class, version)
    assert joined(list(message_pieces(message, version, flexible, ""))) == encode_message(message, version, flexible)


def test_the_pieces_of_a_recorded_request_are_its_bytes() -> None:
    for case in golden_cases():
        if case.kind == "request":
            header, body = decode_request(case.data)
            api = load_api(case.key)
            assert api is not None
            pieces = request_pieces(api, case.version, header.correlation_id, header.client_id, body)
            assert joined(pieces) == case.data


def test_most_mutations_change_something_and_many_can_be_read() -> None:
    chance, read, changed = random.Random(1), 0, 0
    api = create_topics.API
    for _ in range(300):
        pieces = request_pieces(api, 7, 1, "x", Values(chance, IDS).message(api.request, 7))
        frame = mutated(pieces, chance)
        changed += frame != joined(pieces)
        try:
            decode_request(frame)
        except ProtocolError:
            continue
        read += 1
    assert 100 < changed < 250
    assert 100 < read < 280


def test_sessions_are_of_many_kinds_and_have_a_form_as_a_line() -> None:
    sessions = [make_session(random.Random(seed), IDS) for seed in range(200)]
    assert {step.listener for session in sessions for step in session} == {"broker", "controller"}
    assert {len({step.connection for step in session}) for session in sessions} >= {1, 2, 3}
    assert any(step.sent is None for session in sessions for step in session)
    for session in sessions:
        assert session_of_line(json.loads(json.dumps(session_to_line(session, "found")))) == session


def test_what_is_to_be_answered() -> None:
    whole = framed(API_VERSIONS)
    assert expectations(whole * 2, "broker") == ([ANSWERED] * 2, False, True)
    assert expectations(whole + whole[:-1], "broker") == ([ANSWERED], False, True)
    assert expectations(whole + b"\xff" * 4 + whole, "broker") == ([ANSWERED], False, False)
    assert expectations(framed(b"\x03\xe7" + API_VERSIONS[2:]) + whole, "broker") == ([], False, False)


def test_wrong_answers_are_noticed() -> None:
    body = api_versions.ApiVersionsResponse()
    good = (5).to_bytes(4, "big") + encode_message(body, 0, False)
    judge([good], [ANSWERED], may_lack=False)
    judge([], [ANSWERED], may_lack=True)
    bug = api_versions.ApiVersionsResponse(error_code=-1)
    for answers, expected, promise in (
        ([good], [], "more answers than requests"),
        ([], [ANSWERED], "a request without an answer"),
        ([b"\0\0\0\6" + good[4:]], [ANSWERED], "an answer to something else"),
        ([good + b"\0"], [ANSWERED], "the answer of ApiVersions cannot be read"),
        ([good[:4] + encode_message(bug, 0, False)], [ANSWERED], "bug: ApiVersions failed"),
    ):
        with pytest.raises(Broken, match=promise):
            judge(answers, expected, may_lack=False)


def test_a_server_that_says_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzzing.sessions.DEADLINE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = silent.getsockname()
        session = (Step(0, "broker", framed(API_VERSIONS)),)
        with pytest.raises(Broken, match="neither an answer nor an end"):
            play(session, {"broker": address, "controller": address})


def test_a_server_that_closes_in_the_middle_of_an_answer_is_noticed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def answer_half() -> None:
            connection, _ = server.accept()
            with connection:
                while connection.recv(1000):
                    pass
                connection.sendall(b"\0\0\0\x0a\0\0")

        thread = threading.Thread(target=answer_half)
        thread.start()
        with pytest.raises(Broken, match="in the middle of an answer"):
            play((Step(0, "broker", framed(API_VERSIONS)),), {"broker": address, "controller": address})
        thread.join()


def test_what_breaks_a_promise_of_the_server_is_seen_a_second_time_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What Metadata says of a topic without name and id is no bug; here it is taken for one."""
    monkeypatch.setattr("tools.fuzzing.sessions._REFUSES_SO", ())
    nameless = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=None)])
    good, bad = (
        (Step(0, "broker", framed(API_VERSIONS)),),
        (Step(0, "broker", framed(encode_request(metadata.API, 12, 1, None, nameless))),),
    )
    hunt = Hunt(600.0, tmp_path)
    try:
        hunt.play(good)
        with pytest.raises(Broken, match="bug: Metadata failed") as caught:
            hunt.play(bad)
        hunt.keep(bad, caught.value)
        hunt.play(bad)  # known by now
    finally:
        hunt.close()
    assert hunt.executions == 3
    ((name, line),) = kept(tmp_path)
    assert name == "bug-metadata-failed"
    assert line["found"].startswith("bug: Metadata failed")
    assert session_of_line(line) == bad


def test_findings_are_kept_by_name_and_made_small(tmp_path: Path) -> None:
    path = keep(tmp_path, "IndexError from varints.decode", "Fetch request", {"kind": "stream"})
    assert path.name == "indexerror-from-varints-decode-fetch-request.json"
    assert dict(kept(tmp_path)) == {path.stem: {"kind": "stream"}}
    assert minimised(b"abcdefgh" * 50, lambda data: b"x" in data or b"gh" in data, 60.0) == b"gh"


def test_a_platform_without_atheris_is_one_clear_line() -> None:
    program = (
        "import sys; sys.modules['atheris'] = None; import importlib.util as u; found = u.find_spec;"
        "u.find_spec = lambda name, *_: None if name == 'atheris' else found(name);"
        "from tools.fuzzing.__main__ import main; sys.exit(main(['codec', '--seconds', '1']))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fuzz codec: atheris is not installed here")
    assert len(done.stderr.splitlines()) == 1
