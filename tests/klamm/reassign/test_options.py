"""The tool's command line: which options may be combined, and the one line of error about those that may not."""

from pathlib import Path

import pytest

from klamm.__main__ import main
from klamm.console.options import UsageError
from klamm.reassign.options import Action, ReassignOptions, decode_reassign_options

SERVER = ("--bootstrap-server", "127.0.0.1:9092")
FILE = ("--reassignment-json-file", "moves.json")
TOPICS = ("--topics-to-move-json-file", "topics.json")


def decoded(*arguments: str) -> ReassignOptions:
    return decode_reassign_options([*SERVER, *arguments])


def test_each_action_is_taken_with_what_it_needs() -> None:
    assert decoded("--list").action is Action.LIST
    for action in (Action.EXECUTE, Action.VERIFY, Action.PROGRESS, Action.WATCH, Action.CANCEL):
        assert decoded(action.value, *FILE) == ReassignOptions(
            bootstrap_servers="127.0.0.1:9092",
            action=action,
            reassignment_file=Path("moves.json"),
            watch=action is Action.WATCH,
        )
    generate = decoded("--generate", *TOPICS, "--broker-list", "3, 1", "--disable-rack-aware")
    assert (generate.topics_file, generate.broker_list, generate.disable_rack_aware) == (
        Path("topics.json"),
        (3, 1),
        True,
    )


def test_execute_has_the_options_of_kafka_s_tool() -> None:
    more = ("--additional", "--throttle", "1000", "--timeout", "5", "--disallow-replication-factor-change", "--json")
    options = decoded("--execute", *FILE, *more)
    assert (options.additional, options.throttle, options.timeout_ms) == (True, 1000, 5)
    assert (options.allow_replication_factor_change, options.as_json) == (False, True)


def test_watch_stands_alone_or_goes_with_progress_or_execute() -> None:
    assert decoded("--progress", "--watch", *FILE).action is Action.WATCH
    started = decoded("--execute", "--watch", *FILE)
    assert (started.action, started.watch) == (Action.EXECUTE, True)


NUMBER = "a whole number from 0 to"


@pytest.mark.parametrize(("arguments", "said"), [
    ([], "an action is needed: --generate, --execute, --verify, --progress, --watch, --list or --cancel"),
    ([*SERVER], "an action is needed: --generate, --execute, --verify, --progress, --watch, --list or --cancel"),
    ([*SERVER, "--list", "--verify", *FILE], "--verify and --list cannot be used together"),
    (["--list"], "--bootstrap-server is needed"),
    ([*SERVER, *SERVER, "--list"], "argument --bootstrap-server: is given twice"),
    (["--bootstrap-server", "localhost", "--list"],
        "argument --bootstrap-server: 'localhost' has no port: HOST:PORT is expected"),
    ([*SERVER, "--verify"], "--verify needs --reassignment-json-file"),
    ([*SERVER, "--generate", *TOPICS], "--generate needs --broker-list"),
    ([*SERVER, "--generate", "--broker-list", "1"], "--generate needs --topics-to-move-json-file"),
    ([*SERVER, "--generate", *TOPICS, "--broker-list", "1,x"],
        f"argument --broker-list: 'x': {NUMBER} 2147483647 is expected"),
    ([*SERVER, "--generate", *TOPICS, "--broker-list", "1,1"], "argument --broker-list: broker 1 is given twice"),
    ([*SERVER, "--list", *FILE], "--reassignment-json-file cannot be used with --list"),
    ([*SERVER, "--list", "--watch"], "--watch cannot be used with --list"),
    ([*SERVER, "--verify", *FILE, "--throttle", "5"], "--throttle cannot be used with --verify"),
    ([*SERVER, "--list", "--throttle", "0"], "--throttle cannot be used with --list"),
    ([*SERVER, "--execute", *FILE, "--preserve-throttles"], "--preserve-throttles cannot be used with --execute"),
    ([*SERVER, "--cancel", *FILE, "--additional"], "--additional cannot be used with --cancel"),
    ([*SERVER, "--watch", *FILE, "--timeout", "5"], "--timeout cannot be used with --watch"),
    ([*SERVER, "--execute", *FILE, "--throttle", "-5"],
        f"argument --throttle: '-5': {NUMBER} 9223372036854775807 is expected"),
    ([*SERVER, "--execute", "--reassignment-json-file", ""], "argument --reassignment-json-file: '' is no path"),
    ([*SERVER, "--execute", *FILE, "--command-config", ""], "argument --command-config: '' is no path"),
    ([*SERVER, "--exec", *FILE], "unrecognized arguments: --exec; did you mean '--execute'?"),
])  # fmt: skip
def test_a_wrong_command_line_is_one_line_and_exit_code_1(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """1, like Kafka's tool; the other commands of klamm use 2."""
    with pytest.raises(UsageError) as raised:
        decode_reassign_options(arguments)
    assert str(raised.value) == said
    assert main(["reassign-partitions", *arguments]) == 1
    assert capsys.readouterr() == ("", f"klamm reassign-partitions: {said}\n")


@pytest.mark.parametrize("arguments", [
    ["--zookeeper", "host:2181", "--list"],
    ["--zookeeper=host:2181", *SERVER, "--execute", *FILE],
    ["--zookeeper"],
])  # fmt: skip
def test_zookeeper_is_deprecated_and_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reassign-partitions", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "klamm reassign-partitions: --zookeeper is deprecated and not supported, because Kafka no longer uses "
        "ZooKeeper: use --bootstrap-server\n"
    )


def test_help_lists_every_option_and_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reassign-partitions", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    options = {*(action.value for action in Action), *FILE[:1], *TOPICS[:1], *SERVER[:1]}
    options |= {"--broker-list", "--disable-rack-aware", "--additional", "--throttle", "--timeout", "--json"}
    options |= {"--preserve-throttles", "--disallow-replication-factor-change", "--zookeeper"}
    assert {option for option in options if option not in shown} == set()
    assert "0 success, 1 failure" in " ".join(shown.split())
