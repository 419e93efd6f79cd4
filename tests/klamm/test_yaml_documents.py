"""YAML in place of JSON: fault rules and scenarios, with PyYAML, which is optional."""

import sys
from pathlib import Path

import pytest

import klamm
from klamm.cluster.fault_rules import read_fault_file
from klamm.console.documents import MAX_YAML_BYTES, read_document
from klamm.control.scenario_file import find_scenario

RULES = """
# The leader of orders is slow, and then away.
faults:
  - id: slow
    api: Produce
    topic: orders-*
    delay_ms: {min: 1, max: 2}
  - api: [Fetch, ListOffsets]
    error: NOT_LEADER_OR_FOLLOWER
    where:
      replicaId: -1
    times: 2
"""
STEPS = """
description: A client is cut off.
parameters: {client: app-1}
timeout_seconds: 30
steps:
  - add_fault: {id: cut, client_id: "${client}", answer: none}
  - pause: 0.01
  - {remove_fault: cut}
"""


def written(folder: Path, text: str | bytes, name: str = "document.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["rules.yaml", "rules.yml"])
def test_rules_are_read_as_from_json(tmp_path: Path, name: str) -> None:
    slow, away = read_fault_file(written(tmp_path, RULES, name))
    assert (slow.given["id"], slow.given["delay_ms"]) == ("slow", {"min": 1, "max": 2})
    assert away.given["where"] == {"replicaId": -1}
    with pytest.raises(ValueError, match=r"did you mean 'topic'"):
        read_fault_file(written(tmp_path, "- {api: Produce, topc: orders}"))


async def test_a_cluster_starts_with_rules_and_runs_a_scenario_of_yaml(tmp_path: Path) -> None:
    async with klamm.Cluster(brokers=1, faults=written(tmp_path, RULES)) as cluster:
        assert next(fault.id for fault in await cluster.faults()) == "slow"
        report = await cluster.run_scenario(written(tmp_path, STEPS, "cut.yaml"), client="app-2")
        assert [step.outcome for step in report.steps] == ["done", "done", "done"]
        assert report.scenario == "cut"
        assert report.steps[0].step == "add_fault id=cut client_id=app-2 answer=none"
    found = find_scenario(str(written(tmp_path, STEPS)), klamm.ControlClient)
    assert (found.timeout_seconds, len(found.steps)) == (30, 3)


def test_without_pyyaml_one_line_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = written(tmp_path, RULES)
    for read in (read_fault_file, lambda found: find_scenario(str(found), klamm.ControlClient)):
        with pytest.raises(
            ValueError, match=r"YAML needs PyYAML: pip install '/path/to/klamm\[yaml\]', or write JSON"
        ) as refused:
            read(path)
        assert "\n" not in str(refused.value)
    with pytest.raises(klamm.ClusterError, match="YAML needs PyYAML"):
        klamm.Cluster(faults=path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", "no YAML"),
        ("a: &x 1\nb: *x", r"aliases \(\*name\) are not read"),
        ("a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),
        ("!!python/object/apply:os.system ['true']", "no YAML"),
        ("- " * 100_000, "nested too deeply"),
        ("a: " + "x" * MAX_YAML_BYTES, f"at most {MAX_YAML_BYTES} bytes of YAML"),
        (b"\xff\xfe\xfd", "no YAML|codec"),
        ("a: \x01", "no YAML"),
    ],
    ids=["cut", "alias", "laughs", "object", "deep", "long", "bytes", "control"],
)
def test_hostile_documents_are_refused_with_one_line(tmp_path: Path, text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        read_document(written(tmp_path, text), "rules")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [".nan", ".inf", "2026-01-01", "!!binary aGk=", "{? [1] : 2}"])
def test_values_that_json_does_not_have_are_refused_as_others(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match=r"probability|:1:32: no YAML: found unhashable key"):
        read_fault_file(written(tmp_path, f"- {{api: Fetch, probability: {value}}}"))
