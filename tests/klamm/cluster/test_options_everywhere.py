"""The options of a cluster have the same names and the same values in `klamm.Cluster`, `klamm.ServerProcess`, the
marker, the ini file and on the command line. The tests go over the table of options.
"""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_type_hints

import pytest

from klamm.cluster.arguments import ClusterArguments
from klamm.cluster.options import OPTION_NAMES, ClusterOptions, checked_options
from klamm.cluster.plan import FREE_PORTS, ClusterPlan, plan_cluster
from klamm.cluster.words import words_of
from klamm.serve.options import decode_serve_options, serve_parser
from klamm.testing.marker_options import words_from_ini, words_from_marker
from klamm.testing.pytest_plugin import _INI

SPELLED: Final = {"configs": "--set", "broker_configs": "--broker-set", "listeners": "--listener", "users": "--user"}
OF_THE_PROCESS: Final = {
    "--tls",
    "--control",
    "--control-token",
    "--control-tls",
    "--follow",
    "--stop-with-stdin",
    "--env",
    "--log-format",
    "--help",
}
VALUES: Final[dict[str, tuple[Any, Any]]] = {
    "brokers": (5, "5"),
    "broker_ids": ((4, 0), "4,0"),
    "racks": (("a", "b"), "a,b"),
    "seed": (7, "7"),
    "profile": ("kafka", "kafka"),
    "configs": ({"num.partitions": 3, "auto.create.topics.enable": False, "log.cleaner.min.cleanable.ratio": 0.25},
        ["num.partitions=3", "auto.create.topics.enable=false", "log.cleaner.min.cleanable.ratio=0.25"]),
    "broker_configs": ({2: {"num.partitions": 4}}, ["2:num.partitions=4"]),
    "config": (Path("server.properties"), "server.properties"),
    "listen": ("127.0.0.1:22000", "22000"),
    "listeners": (["PLAINTEXT://127.0.0.1:0", "INSIDE://127.0.0.1:0"],
        ["PLAINTEXT://127.0.0.1:0", "INSIDE://127.0.0.1:0"]),
    "advertise": ("kafka:29092", "kafka:29092"),
    "controller_listener": ("127.0.0.1:0", "127.0.0.1:0"),
    "kafka_version": ("3.6,client:old*=2.1", "3.6,client:old*=2.1"),
    "max_version": ("Metadata=9,Fetch=11", "Metadata=9,Fetch=11"),
    "metadata_version": ("4.0-IV3", "4.0-IV3"),
    "kip_578_versions": (True, True),
    "client_telemetry": (True, True),
    "log_dirs": (3, "3"),
    "real_topics": ("orders-*", "orders-*"),
    "dynamic_quorum": (True, True),
    "replication_rate": (10, "10"),
    "data_memory_bytes": (2_000_000, "2000000"),
    "data_file_bytes": (30, "30"),
    "cluster_id": ("some-id", "some-id"),
    "data_dir": (Path("data"), "data"),
    "twin": (Path("copy"), "copy"),
    "snapshot_records": (40, "40"),
    "keep_history": (True, True),
    "request_log": ("requests.jsonl", "requests.jsonl"),
    "request_topic": ("__klamm_requests", "__klamm_requests"),
    "start_ms": (50, "50"),
    "faults": (Path("faults.json"), "faults.json"),
    "journal_bodies": (True, True),
    "security": ("ssl", "ssl"),
    "users": ({"alice": "secret", "bob": "other:secret"}, ["alice:secret", "bob:other:secret"]),
    "add_scram": (["SCRAM-SHA-256=[name=a,password=b]"], ["SCRAM-SHA-256=[name=a,password=b]"]),
    "clock": ("manual", "manual"),
}  # fmt: skip
"""A value of each option in Python, and its text in the ini file."""


def planned(options: ClusterOptions) -> ClusterPlan:
    return plan_cluster(options, {}, FREE_PORTS)


def test_every_option_is_everywhere_and_no_other() -> None:
    assert set(VALUES) == set(OPTION_NAMES)
    assert set(get_type_hints(ClusterArguments)) == set(OPTION_NAMES)
    assert {field.name for field in fields(ClusterOptions)} - {"sets", "broker_sets"} == set(OPTION_NAMES)
    assert set(_INI) - {"arguments"} == set(OPTION_NAMES)
    on_command_line = {
        option for action in serve_parser()._actions for option in action.option_strings if option != "-h"
    }
    spelled = {SPELLED.get(name, f"--{name.replace('_', '-')}") for name in OPTION_NAMES}
    assert on_command_line == spelled | OF_THE_PROCESS
    assert not any(isinstance(action, argparse._SubParsersAction) for action in serve_parser()._actions)


@pytest.mark.parametrize("name", OPTION_NAMES)
def test_a_value_means_the_same_everywhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.properties").write_text("num.partitions=9\n")
    (tmp_path / "faults.json").write_text('[{"api": "Produce", "topic": "a*", "times": 2}]')
    value, text = VALUES[name]
    in_python = planned(checked_options({name: value}))
    assert in_python != planned(ClusterOptions())
    for words in (words_of({name: value}), words_from_marker((), {name: value}), words_from_ini({name: text})):
        arguments = [word for some in words.values() for word in some]
        assert planned(decode_serve_options(arguments)) == in_python
