"""The declarations match spec/, and importing them builds no schema."""

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from klamm.protocol import ErrorCode, Message, Uuid, load_api
from klamm.protocol.fields import Array, wire_fields
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID

ROOT = Path(__file__).parent.parent.parent


def run_python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_modules_are_what_the_script_writes() -> None:
    checked = run_python("tools/generate_messages.py", "--check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_drift_check_can_fail(tmp_path: Path) -> None:
    """A copy of the tree with one changed default is detected."""
    for part in ("tools/generate_messages.py", "tools/message_files.py", "tools/old_versions.py", "spec", "protocol"):
        target = tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(ROOT / part) if (ROOT / part).is_dir() else target.write_text((ROOT / part).read_text())
    (tmp_path / "spec").unlink()
    (tmp_path / "spec").mkdir()
    for table in (ROOT / "spec").glob("*.tsv"):
        text = table.read_text()
        (tmp_path / "spec" / table.name).write_text(text.replace("\tUNKNOWN_SERVER_ERROR\t", "\tCHANGED\t"))
    checked = run_python(str(tmp_path / "tools/generate_messages.py"), "--check")
    assert checked.returncode == 1
    assert checked.stderr == "differs from spec/: protocol/error_codes.py\n"


def test_error_codes_are_those_of_the_table() -> None:
    with (ROOT / "spec" / "errors.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    assert {code.name: int(code) for code in ErrorCode} == {row["name"]: int(row["code"]) for row in rows}
    assert {code.name for code in ErrorCode if code.retriable} == {r["name"] for r in rows if r["retriable"] == "1"}


def test_importing_protocol_imports_no_construct_no_numpy_and_no_message() -> None:
    shown = run_python("-c", "import klamm.protocol, sys; print(*sorted(sys.modules))")
    loaded = set(shown.stdout.split())
    assert "klamm.protocol.codec.requests" in loaded
    assert not loaded & {"construct", "numpy", "google_crc32c", "asyncio", "klamm.protocol.codec.schema"}
    messages = {name for name in loaded if name.startswith("klamm.protocol.messages.")}
    assert messages == {"klamm.protocol.messages.headers", "klamm.protocol.messages.index"}


def test_no_schema_needs_numpy_until_columns_are_encoded() -> None:
    source = """
import sys
from klamm import protocol
api = protocol.load_api(3)
frame = protocol.encode_request(api, 12, 1, None, api.request(topics=None))
protocol.decode_request(frame)
print("construct" in sys.modules, "numpy" in sys.modules)
"""
    assert run_python("-c", source).stdout == "True False\n"


def test_apis_are_loaded_by_key() -> None:
    api = load_api(19)
    assert api is not None
    assert (api.name, api.request, api.versions) == ("CreateTopics", CreateTopicsRequest, range(8))
    assert load_api(999) is None
    assert load_api(-1) is None


def test_messages_are_values() -> None:
    one, other = CreatableTopic(name="a"), CreatableTopic(name="a")
    assert one == other
    assert CreateTopicsRequest(topics=[one]) == CreateTopicsRequest(topics=(other,))
    other.unknown_tags = {}
    assert one == other
    other.unknown_tags = {5: b""}
    assert one != other
    assert replace(one, name="b") == CreatableTopic(name="b")
    assert repr(other) == "CreatableTopic(name='a', unknown_tags={5: b''})"
    with pytest.raises(TypeError):
        hash(one)
    with pytest.raises(AttributeError):
        one.nmae = "misspelt"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        CreatableTopic("positional")  # type: ignore[call-arg]


def test_a_struct_default_is_a_new_message_each_time() -> None:
    from klamm.protocol.records.control import VotersRecordVoter

    first, second = VotersRecordVoter(), VotersRecordVoter()
    first.kraft_version_feature.max_supported_version = 1
    assert second.kraft_version_feature.max_supported_version == 0
    kinds = {wire.name: wire.type for wire in wire_fields(VotersRecordVoter)}
    endpoints = kinds["endpoints"]
    assert isinstance(endpoints, Array)
    assert isinstance(endpoints.of, type)
    assert issubclass(endpoints.of, Message)


def test_uuids_print_as_kafka_prints_them() -> None:
    assert str(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert str(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    uuid = Uuid.from_text("VlBIIO9USluf1Zer26cQRA")
    assert len(uuid) == 16
    assert str(uuid) == "VlBIIO9USluf1Zer26cQRA"
    assert repr(uuid) == "Uuid('VlBIIO9USluf1Zer26cQRA')"
    for text in ("", "AAAA", "VlBIIO9USluf1Zer26cQRAAAAA", "not base64!"):
        with pytest.raises(ValueError):  # noqa: PT011 - base64 has several texts
            Uuid.from_text(text)
