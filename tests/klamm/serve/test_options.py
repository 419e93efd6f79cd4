"""The command line of `klamm serve`: what it accepts, and its errors: one line each, before any large import."""

from pathlib import Path

import pytest

from klamm.console.options import UsageError
from klamm.serve.options import ServeOptions, decode_serve_options
from klamm.server.addresses import Address


def test_without_options_the_defaults_stand() -> None:
    assert decode_serve_options([]) == ServeOptions(
        listen=None,
        brokers=None,
        broker_ids=(),
        racks=(),
        config=None,
        sets=(),
        broker_sets=(),
        profile="kip",
        seed=None,
        data_dir=None,
        request_log=None,
        controller_listener=None,
        control=None,
        advertise=None,
        cluster_id=None,
        log_format="console",
        replication_rate=1_000_000,
        data_memory_bytes=256 * 2**20,
        data_file_bytes=16 * 2**30,
        snapshot_records=200_000,
    )


def test_every_option_is_read() -> None:
    arguments = (
        "--listen [::1]:0 --brokers 5 --broker-ids 0,9,4,3,2 --racks a,b,c --config s.properties "
        "--set num.partitions=3 "
        "--broker-set 2:num.partitions=4 --profile kafka --seed 7 --data-dir d --request-log r.jsonl "
        "--controller-listener localhost:9093 --control 127.0.0.1:0 "
        "--advertise example.org:29092 --cluster-id some-id --log-format json "
        "--log-dirs 3 --replication-rate 10 --data-memory-bytes 2000000 --data-file-bytes 30 --snapshot-records 40"
    )
    assert decode_serve_options(arguments.split()) == ServeOptions(
        listen=Address("::1", 0),
        brokers=5,
        broker_ids=(0, 9, 4, 3, 2),
        racks=("a", "b", "c"),
        config=Path("s.properties"),
        sets=("num.partitions=3",),
        broker_sets=("2:num.partitions=4",),
        profile="kafka",
        seed=7,
        data_dir=Path("d"),
        request_log=Path("r.jsonl"),
        controller_listener=Address("localhost", 9093),
        control=Address("127.0.0.1", 0),
        advertise=Address("example.org", 29092),
        cluster_id="some-id",
        log_format="json",
        log_dirs=3,
        replication_rate=10,
        data_memory_bytes=2_000_000,
        data_file_bytes=30,
        snapshot_records=40,
    )


@pytest.mark.parametrize(("arguments", "said"), [
    (["--brokers", "1001"], "argument --brokers: '1001': a whole number from 0 to 1000 is expected"),
    (["--brokers", "-1"], "--brokers: '-1'"),
    (["--brokers", "10000"], "--brokers: '10000'"),
    (["--brokers", "3.0"], "--brokers: '3.0'"),
    (["--brokers", "1_0"], "--brokers: '1_0'"),
    (["--brokers", "٣"], "--brokers"),
    (["--brokers", "9" * 5000], "--brokers: '9999"),
    (["--brokers", "3", "--brokers", "3"], "--brokers: is given twice"),
    (["--brokers"], "--brokers: expected one argument"),
    (["--racks", ""], "--racks: '': rack '' has no name"),
    (["--racks", "a,,b"], "--racks: 'a,,b': rack '' has no name"),
    (["--racks", "a, b"], "rack ' b' has no name, or blanks around it"),
    (["--racks", "a\nb"], "printable characters"),
    (["--racks", "x" * 256], "up to 255"),
    (["--seed", "x"], "--seed: 'x'"),
    (["--seed", str(2**63)], "--seed"),
    (["--profile", "zookeeper"], "--profile: invalid choice: 'zookeeper'"),
    (["--log-format", "xml"], "--log-format: invalid choice"),
    (["--listen", "localhost"], "--listen: 'localhost' has no port"),
    (["--tls", "auto", "--user", "a:b", "--listener", "PLAINTEXT://127.0.0.1:0"],
        "argument --listener: --tls is for one listener: give its address with --listen"),
    (["--user", "a:b", "--listener", "PLAINTEXT://127.0.0.1:0"], "--listener: --user is for one listener"),
    (["--listen", "65536"], "--listen: '65536' is no port between 0 and 65535"),
    (["--request-log", "-"], "--request-log: '-' would be stdout"),
    (["--follow"], "argument --follow: it is for a twin: give its source with --twin"),
    (["--request-topic", "a b"], "--request-topic: request topic 'a b': the name of a topic is expected"),
    (["--request-topic", "__consumer_offsets"], "Kafka itself writes that topic"),
    (["--listen", "http://localhost:1"], "'http://localhost:1': HOST:PORT is expected, without 'http://'"),
    (["--kafka-version", "0.11"], "; the oldest is 2.1"),
    (["--listen", "::1:9092"], "--listen: '::1': an IPv6 address needs brackets, as in [::1]:9092"),
    (["--controller-listener", "localhost:x"], "--controller-listener: 'x' is no port"),
    (["--advertise", "a b"], "--advertise: 'a b' is no host"),
    (["--advertise", "kafka:0"], "--advertise: 'kafka:0': clients cannot connect to port 0"),
    (["--advertise", "kafka:"], "--advertise: '' is no port"),
    (["--cluster-id", ""], "--cluster-id: '': up to 64 letters"),
    (["--cluster-id", "a b"], "--cluster-id: 'a b'"),
    (["--cluster-id", "a\\u0041"], "--cluster-id"),
    (["--cluster-id", "---"], "--cluster-id"),
    (["--cluster-id", "x" * 65], "--cluster-id"),
    (["--data-dir", ""], "--data-dir: '' is no path"),
    (["--set", "num.partitions=3", "--set", "num.partitions=4"], "--set: num.partitions is given twice"),
    (["--log-dirs", "0"], "--log-dirs: '0': a whole number from 1 to 100 is expected"),
    (["--log-dirs", "101"], "--log-dirs: '101'"),
    (["--replication-rate", "0"], "--replication-rate: '0': a whole number from 1 to 1000000000 is expected"),
    (["--replication-rate", "1e6"], "--replication-rate: '1e6'"),
    (["--data-memory-bytes", "1048575"], "--data-memory-bytes: '1048575': a whole number from 1048576"),
    (["--data-memory-bytes", "16M"], "--data-memory-bytes: '16M'"),
    (["--data-file-bytes", "-1"], "--data-file-bytes: '-1'"),
    (["--data-file-bytes", str(2**40 + 1)], "--data-file-bytes"),
    (["--data-file-bytes", "1", "--data-file-bytes", "1"], "--data-file-bytes: is given twice"),
    (["--bogus"], "unrecognized arguments: --bogus"),
    (["--broker", "3"], "unrecognized arguments: --broker 3"),
    (["extra"], "unrecognized arguments: extra"),
])  # fmt: skip
def test_a_wrong_option_is_named(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode_serve_options(arguments)
    assert said in str(refused.value)


def test_a_host_s_example_has_no_port() -> None:
    with pytest.raises(UsageError, match=r"as in \[::1\]$"):
        decode_serve_options(["--advertise", "::1"])


@pytest.mark.parametrize(("told", "expected"), [
    ("kafka", Address("kafka", 0)),
    ("[::1]", Address("::1", 0)),
    ("[::1]:29092", Address("::1", 29092)),
])  # fmt: skip
def test_what_clients_are_told_is_a_host_with_or_without_a_port(told: str, expected: Address) -> None:
    assert decode_serve_options(["--advertise", told]).advertise == expected


def test_keys_that_are_missing_are_no_repeated_keys() -> None:
    assert decode_serve_options(["--set", "=1", "--set", "=2"]).sets == ("=1", "=2")


def test_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        decode_serve_options(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    only_in_python = {"configs", "broker_configs"}
    for name in ServeOptions.__dataclass_fields__.keys() - only_in_python:
        option = name.removesuffix("s") if name in ("sets", "broker_sets", "listeners", "users") else name
        assert f"--{option.replace('_', '-')} " in shown


def test_help_tells_both_lines_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        decode_serve_options(["--help"])
    shown = capsys.readouterr().out
    described = "".join(shown.partition("cluster:")[0].split())
    assert "bootstrap.servers=HOST:PORT,…" in described
    assert "--controller-listeneralsocontroller.quorum.bootstrap.servers=HOST:PORT" in described
    assert "With--control,thelastlineiscontrol=http://HOST:PORT" in described
