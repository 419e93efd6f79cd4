"""The pytest plugin in separate suites, each run by a separate pytest: fixtures, options, failures, leftovers.
tools/toolchain_checks/pytest_project.py tests the wheel in an environment of its own and beside other plugins."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import klamm
from klamm.testing.marker_options import words_from_marker

ROOT = Path(klamm.__file__).resolve().parents[1]


class Suite:
    """A folder of test files. Its tests write the process ids of servers to `servers`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.write_ini("")

    def write_ini(self, line: str) -> None:
        plugins = "-p klamm.testing.pytest_plugin -p no:cacheprovider"
        self.write("pytest.ini", f"[pytest]\naddopts = --strict-markers {plugins}\n{line}\n")

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(textwrap.dedent(text))

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output of pytest."""
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-rA", "--color=no", *arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return ended.returncode, ended.stdout

    def servers(self) -> list[int]:
        return [int(line) for line in (self._folder / "servers").read_text().split()]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def outcomes(told: str) -> dict[str, str]:
    """The outcome of each test, with the first line of its reason."""
    lines = re.findall(r"^(PASSED|FAILED|ERROR) \S+?::(\S+)(?: - (.*))?$", told, re.MULTILINE)
    return {name: f"{outcome} {reason}".strip() for outcome, name, reason in lines}


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


RECORDING = """
def record(server):
    with open("servers", "a") as file:
        file.write(f"{server.process_id}\\n")
"""


def test_each_test_has_a_cluster_of_its_own_and_all_share_the_session_s(suite: Suite) -> None:
    suite.write("conftest.py", RECORDING)
    suite.write(
        "test_it.py",
        """
        import klamm
        import pytest
        from conftest import record

        def test_first(klamm_cluster, klamm_session_cluster):
            assert isinstance(klamm_cluster, klamm.ServerProcess)
            klamm_cluster.stop_broker(2)
            assert [broker.state for broker in klamm_cluster.brokers()] == ["up", "down", "up"]
            assert [broker.state for broker in klamm_session_cluster.brokers()] == ["up"] * 3
            record(klamm_cluster)
            record(klamm_session_cluster)

        def test_second(klamm_cluster, klamm_session_cluster):
            assert [broker.state for broker in klamm_cluster.brokers()] == ["up"] * 3
            record(klamm_cluster)
            record(klamm_session_cluster)

        def test_stops_it_itself(klamm_cluster):
            klamm_cluster.stop()

        @pytest.mark.trio
        async def test_trio(klamm_session_cluster):
            async with klamm.AdminClient(klamm_session_cluster.bootstrap_servers) as admin:
                assert len((await admin.metadata()).brokers) == 3
        """,
    )
    code, output = suite.run()
    assert (code, list(outcomes(output).values())) == (0, ["PASSED"] * 4), output
    first, session, second, session_again = suite.servers()
    assert session == session_again
    assert len({first, session, second}) == 3
    assert not any(map(is_alive, suite.servers()))


def test_the_closest_marker_counts_most_and_the_ini_file_least(suite: Suite) -> None:
    suite.write(
        "test_it.py",
        """
        import pytest
        from confluent_kafka.admin import AdminClient, ConfigResource

        LOCALHOST = ("--advertise", "localhost")
        pytestmark = pytest.mark.klamm(brokers=2, configs={"num.partitions": "7"}, arguments=LOCALHOST)

        def seen(cluster):
            racks = [broker.rack for broker in cluster.brokers()]
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
            configs = answer.result()
            keys = ("num.partitions", "default.replication.factor", "min.insync.replicas")
            return racks, [configs[key].value for key in keys], cluster.bootstrap_servers[:9]

        def test_module(klamm_cluster):
            assert seen(klamm_cluster) == (["x", "y"], ["7", "2", "1"], "localhost")

        @pytest.mark.klamm(racks=(), arguments=(), configs={"min.insync.replicas": "2"})
        class TestClass:
            @pytest.mark.klamm(brokers=1, broker_configs={1: {"num.partitions": "8"}})
            def test_method(self, klamm_cluster):
                assert seen(klamm_cluster) == ([None], ["8", "2", "2"], "127.0.0.1")
        """,
    )
    suite.write(
        "test_session.py",
        """
        def test_session(klamm_session_cluster):
            assert [broker.rack for broker in klamm_session_cluster.brokers()] == ["x", "y", "x", "y"]
        """,
    )
    configs = "klamm_configs=num.partitions=5\ndefault.replication.factor=2"
    code, output = suite.run("-o", "klamm_brokers=4", "-o", "klamm_racks=x,y", "-o", configs)
    assert (code, len(outcomes(output))) == (0, 3), output


def test_a_cluster_has_the_listeners_of_the_marker_or_of_the_ini_file(suite: Suite) -> None:
    suite.write(
        "test_it.py",
        """
        import pytest

        @pytest.mark.klamm(brokers=1, listeners=("PLAINTEXT://127.0.0.1:0", "INTERNAL://127.0.0.1:0"))
        def test_marker(klamm_cluster):
            (broker,) = klamm_cluster.brokers()
            assert broker.listeners["INTERNAL"] == klamm_cluster.listeners["INTERNAL"]
            assert set(klamm_cluster.listeners) == {"INTERNAL"}

        @pytest.mark.klamm(listen="127.0.0.1:0")
        def test_short_form(klamm_cluster):
            assert klamm_cluster.listeners == {}

        def test_ini(klamm_cluster):
            assert set(klamm_cluster.listeners) == {"HOST"}
            assert len(klamm_cluster.brokers()) == 3
        """,
    )
    code, output = suite.run("-o", "klamm_listeners=PLAINTEXT://127.0.0.1:0\nHOST://127.0.0.1:0")
    assert (code, len(outcomes(output))) == (0, 3), output


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"broker": 3}, r"there is no option 'broker' \(known: brokers, .*, arguments\); did you mean 'brokers'\?"),
        ({"brokers": 1001}, "brokers 1001: a whole number from 0 to 1000 is expected"),
        ({"brokers": True}, "brokers True: a whole number"),
        ({"racks": "a,b"}, "racks 'a,b': a sequence of names is expected"),
        ({"racks": ["a,b"]}, "rack 'a,b': a comma cannot be part of a name here"),
        ({"seed": -1}, "seed -1: a whole number"),
        ({"profile": "kafak"}, "profile 'kafak': kip or kafka is expected"),
        ({"profile": []}, r"profile \[\]: kip or kafka is expected"),
        ({"configs": ["num.partitions=3"]}, "configs .*: a mapping of names to values is expected"),
        (
            {"configs": {"num.partitions": None}},
            "config num.partitions: its value must be a string, a number or a boolean",
        ),
        ({"broker_configs": {"2": {}}}, "broker '2': a whole number"),
        ({"arguments": "--seed 7"}, "arguments '--seed 7': a sequence of words is expected"),
        ({"arguments": [7]}, "argument 7: a string is expected"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}") as refused:
        words_from_marker((), options)
    assert "\n" not in str(refused.value)


def test_options_are_the_command_line_s() -> None:
    options = {"brokers": 2, "racks": ("a", "b"), "seed": 7, "profile": "kafka", "arguments": ["--kip-578-versions"]}
    words = words_from_marker((), {**options, "configs": {"a": "1=2"}, "broker_configs": {2: {"b": "3"}}})
    assert [word for some in words.values() for word in some] == [
        *("--brokers", "2", "--racks", "a,b", "--seed", "7", "--profile", "kafka", "--kip-578-versions"),
        *("--set", "a=1=2", "--broker-set", "2:b=3"),
    ]
    assert set(words_from_marker((), {"seed": None, "racks": (), "arguments": ()}).values()) == {()}


def test_what_cannot_be_is_told_in_one_line_and_other_tests_go_on(suite: Suite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        suite.write(
            "test_it.py",
            f"""
            import pytest

            @pytest.mark.klamm(broker=2)
            def test_unknown(): pass

            @pytest.mark.klamm(3)
            def test_positional(klamm_cluster): pass

            @pytest.mark.klamm(brokers=2)
            def test_session(klamm_session_cluster): pass

            @pytest.mark.klamm(profile="kip", arguments=("--listen", "127.0.0.1:{port}"))
            def test_taken(klamm_cluster): pass

            def test_first_shared(klamm_session_cluster): pass

            def test_second_shared(klamm_session_cluster): pass

            @pytest.mark.klamm(profile="kip")
            def test_passes(klamm_cluster): pass
            """,
        )
        code, reported = suite.run("-o", "klamm_profile=none")
    ended = outcomes(reported)
    marker = "ERROR Failed: @pytest.mark.klamm:"
    assert (code, ended["test_passes"]) == (1, "PASSED"), reported
    assert ended["test_unknown"].startswith(f"{marker} there is no option 'broker'")
    assert ended["test_positional"].startswith(f"{marker} 3 has no name: options are given by name")
    assert ended["test_session"].startswith(f"{marker} klamm_session_cluster is shared by all tests")
    refused = "klamm serve ended with exit code 2 before it was ready: klamm serve: "
    assert ended["test_taken"].startswith(f"ERROR Failed: klamm_cluster: {refused}"), reported
    assert str(port) in ended["test_taken"]
    for name in ("test_first_shared", "test_second_shared"):
        assert ended[name].startswith(f"ERROR Failed: klamm_session_cluster: {refused}argument --profile"), reported
    assert "During handling" not in reported
    assert "Traceback" not in reported


def test_a_failing_test_is_shown_with_what_its_server_wrote(suite: Suite) -> None:
    suite.write(
        "test_it.py",
        """
        import os, pytest, signal

        pytestmark = pytest.mark.klamm(configs={"broker.id": "9"})

        def test_passes(klamm_cluster): pass

        def test_fails(klamm_cluster, klamm_session_cluster): raise LookupError

        def test_later(request):
            request.getfixturevalue("klamm_cluster")
            raise LookupError

        def test_without(): raise LookupError

        def test_killed(klamm_cluster):
            os.kill(klamm_cluster.process_id, signal.SIGKILL)
        """,
    )
    code, output = suite.run("-rfE")
    assert code == 1
    _, *sections = re.split(r"^_{3,} (.+?) _{3,}$", output.partition("short test summary")[0], flags=re.MULTILINE)
    shown = dict(zip(sections[::2], sections[1::2], strict=True))
    heading = re.compile(r"^-+ Captured klamm_cluster stderr -+\n.*broker\.id\n", re.MULTILINE)
    with_stderr = {name for name, text in shown.items() if heading.search(text)}
    assert set(shown) == {"test_fails", "test_later", "test_without", "ERROR at teardown of test_killed"}, output
    assert with_stderr == {"test_fails", "test_later"}
    assert "Captured klamm_session_cluster" not in output  # There is no output.
    assert "klamm_cluster: klamm serve ended with exit code -9" in shown["ERROR at teardown of test_killed"]


def test_with_an_option_passing_tests_are_shown_with_what_their_servers_wrote(suite: Suite) -> None:
    suite.write(
        "test_it.py",
        """
        import pytest, socket, struct

        def ask_in_vain(server):
            host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(struct.pack(">ihhih", 10, 34, 0, 1, -1))
                assert client.recv(1) == b""

        @pytest.mark.klamm(configs={"num.io.threads": 4})
        def test_warned(klamm_cluster): pass

        def test_silent(klamm_cluster): pass

        def test_first(klamm_session_cluster): ask_in_vain(klamm_session_cluster)

        def test_second(klamm_session_cluster): pass
        """,
    )
    code, without = suite.run("-rN")
    assert (code, "stderr" in without) == (0, False)
    code, output = suite.run("-rN", "--klamm-log")
    assert code == 0
    _, *sections = re.split(r"^-+ Captured (\w+) stderr: test_it.py::(\w+) -+$", output, flags=re.MULTILINE)
    assert list(zip(sections[::3], sections[1::3], strict=True)) == [
        ("klamm_cluster", "test_warned"),
        ("klamm_session_cluster", "test_first"),
    ]
    assert "have no other effect here: num.io.threads" in sections[2]
    assert "connection closed: this API or version is not served" in sections[5]


def test_no_server_outlives_a_pytest_that_is_killed(suite: Suite) -> None:
    suite.write("conftest.py", RECORDING)
    suite.write(
        "test_it.py",
        """
        import os, signal
        from conftest import record

        def test_it(klamm_cluster, klamm_session_cluster):
            record(klamm_cluster)
            record(klamm_session_cluster)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    code, output = suite.run()
    assert code == -signal.SIGKILL, output
    for process_id in suite.servers():
        await_end(process_id)


def await_end(process_id: int) -> None:
    """Wait for the end of a process that is no child of this one."""
    try:
        process = os.pidfd_open(process_id)
    except ProcessLookupError:
        return
    try:
        assert select.select([process], [], [], 20)[0], f"server {process_id} is still there"
    finally:
        os.close(process)


def test_a_suite_without_clusters_imports_the_plugin_alone(suite: Suite) -> None:
    suite.write(
        "test_it.py",
        """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.partition(".")[0] == "klamm"}
            assert ours == {"klamm", "klamm.testing", "klamm.testing.pytest_plugin"}
            assert not {"trio", "numpy", "construct", "starlette"} & set(sys.modules)
        """,
    )
    code, output = suite.run("-p", "no:trio", "-p", "no:anyio", "-p", "no:hypothesispytest")
    assert code == 0, output


def test_a_marker_makes_a_listener_with_tls_and_users(suite: Suite) -> None:
    suite.write("test_it.py", """
        import pytest
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        @pytest.mark.klamm(security="sasl_ssl", users={"alice": "secret", "bob": "other"}, brokers=1)
        def test_login(klamm_cluster):
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
                config = klamm_cluster.client_config("confluent-kafka", user="alice", mechanism=mechanism)
                assert len(AdminClient(config).list_topics(timeout=20).brokers) == 1
            with pytest.raises(KafkaException):
                AdminClient(config | {"sasl.password": "wrong", "log_level": 0}).list_topics(timeout=2)
    """)  # fmt: skip
    code, output = suite.run()
    assert code == 0, output
