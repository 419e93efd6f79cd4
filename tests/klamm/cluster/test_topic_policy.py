"""The create-topic policy: how it is found, the arguments of its calls, and that it cannot harm the server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
import trio

import klamm
from klamm import ErrorCode, NewTopic, PolicyViolation
from klamm.cluster.topic_policy import MOST_CALLS_LEFT_BEHIND, MOST_CALLS_SHOWN, MOST_TEXT_CHARACTERS, TopicJudge
from klamm.controller.topic_policy import Judgement, RequestedTopic
from tests.klamm.serve.processes import FREE, addresses, first_line, refused, serving

CONFIG = "create.topic.policy.class.name"
TOPIC = RequestedTopic(topic_name="t", num_partitions=1, replication_factor=1, configs={})
MODULE = """
from klamm import PolicyViolation
LIMIT = 7
class Policy:
    @staticmethod
    def validate(topic):
        if topic.num_partitions > LIMIT:
            raise PolicyViolation(f"{topic.topic_name}: at most {LIMIT} partitions")
async def later(topic):
    pass
"""


def code(judgement: Judgement) -> ErrorCode | None:
    return judgement.refusal.code if judgement.refusal else None


@pytest.fixture
def never() -> Iterator[Event]:
    """Waits for longer than the test takes."""
    event = Event()
    yield event
    event.set()


# The result of a call


def test_a_policy_that_returns_accepts() -> None:
    assert TopicJudge(lambda topic: None)(TOPIC) == Judgement()


@pytest.mark.parametrize(("text", "sent"), [
    ("too large", "too large"),
    ("", None),
    ("\ud800 no", "? no"),
    ("x" * 100_000, "x" * MOST_TEXT_CHARACTERS),
])  # fmt: skip
def test_a_violation_refuses_with_its_text(text: str, sent: str | None) -> None:
    def policy(topic: RequestedTopic) -> None:
        raise PolicyViolation(text)

    refusal = TopicJudge(policy)(TOPIC).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message) == (ErrorCode.POLICY_VIOLATION, sent)


class Untold(PolicyViolation):
    def __str__(self) -> str:
        raise KeyError("text")


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit(0), KeyboardInterrupt(), Untold()])
def test_any_other_failure_is_a_server_error_of_few_words(error: BaseException) -> None:
    def policy(topic: RequestedTopic) -> None:
        raise error

    judgement = TopicJudge(policy)(TOPIC)
    assert code(judgement) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert judgement.failure is not None
    name = "KeyError" if isinstance(error, Untold) else type(error).__name__
    assert judgement.refusal is not None
    assert judgement.refusal.message == f"The create-topic policy failed with {name}."


def later(topic: RequestedTopic) -> None:
    """A plain function that returns a coroutine: only its call shows that."""

    async def refuse() -> None:
        raise PolicyViolation

    return refuse()  # type: ignore[return-value]


@pytest.mark.parametrize("policy", [lambda topic: False, lambda topic: True, later])
def test_an_answer_that_is_not_none_is_no_acceptance(policy: Callable[[RequestedTopic], None]) -> None:
    judgement = TopicJudge(policy)(TOPIC)
    assert code(judgement) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert judgement.refusal is not None
    assert "instead of None" in (judgement.refusal.message or "")


def test_a_policy_that_never_returns_is_left_behind_a_few_times(never: Event) -> None:
    calls = []

    def policy(topic: RequestedTopic) -> None:
        calls.append(topic)
        never.wait()

    judge = TopicJudge(policy, seconds=0.01, rest_seconds=0)
    for _ in range(MOST_CALLS_LEFT_BEHIND):
        refusal = judge(TOPIC).refusal
        assert refusal is not None
        assert (refusal.code, refusal.message) == (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "The create-topic policy did not answer within 0.01 s.",
        )
    refusal = judge(TOPIC).refusal
    assert refusal is not None
    assert refusal.message == "8 calls of the create-topic policy have not returned."
    assert len(calls) == MOST_CALLS_LEFT_BEHIND
    # The policy is called again when it has finished.
    never.set()
    deadline = monotonic() + 20
    while code(judge(TOPIC)) is not None:
        assert monotonic() < deadline


def test_a_loop_without_end_is_interrupted_and_asked_a_few_times() -> None:
    ended = Event()

    def policy(topic: RequestedTopic) -> None:
        try:
            while True:
                pass
        finally:
            ended.set()

    judge = TopicJudge(policy, seconds=0.01)
    for _ in range(MOST_CALLS_LEFT_BEHIND):
        ended.clear()
        assert code(judge(TOPIC)) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert ended.wait(20)
    ended.clear()
    refusal = judge(TOPIC).refusal
    assert refusal is not None
    assert refusal.message is not None
    assert refusal.message.startswith("8 calls of the create-topic policy ")
    assert not ended.is_set()


def test_a_late_call_tells_where_it_was(never: Event) -> None:
    def policy(topic: RequestedTopic) -> None:
        wait_in_vain(1000)

    def wait_in_vain(depth: int) -> None:
        if depth == 500:
            never.wait()
        wait_in_vain(depth - 1)

    failure = TopicJudge(policy, seconds=0.2)(TOPIC).failure
    assert failure is not None
    (note,) = failure.__notes__
    assert note.count("File ") <= MOST_CALLS_SHOWN
    assert "never.wait()" in note
    assert "wait_in_vain(depth - 1)" in note
    assert "wait_in_vain(1000)" not in note, "the innermost calls are shown"
    quick = TopicJudge(lambda topic: 1 / 0)(TOPIC).failure  # type: ignore[arg-type]
    assert not hasattr(quick, "__notes__")


# How the policy is found


@pytest.fixture
def policies(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds the module `policies`."""
    (tmp_path / "policies.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("raise ValueError('so\\nso')")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)")
    root = Path(klamm.__file__).parents[1]
    return {"PYTHONPATH": f"{root}:{tmp_path}"}


@pytest.mark.parametrize(("name", "said"), [
    ("policies", "'policies' is no MODULE:CALLABLE of Python"),
    ("org.acme.Policy$Strict", "is no MODULE:CALLABLE"),
    ("policies:", "is no MODULE:CALLABLE"),
    (":validate", "is no MODULE:CALLABLE"),
    ("nowhere:validate", "ModuleNotFoundError: No module named 'nowhere' (is its directory on PYTHONPATH?)"),
    ("broken:validate", "the module 'broken' cannot be imported: ValueError: so so"),
    ("leaving:validate", "the module 'leaving' cannot be imported: SystemExit: 3"),
    ("policies:absent", "the module 'policies' has no 'absent'"),
    ("policies:LIMIT", "int 7 cannot be called: a function is expected"),
    ("policies:Policy", "the class 'Policy' is no policy: a function is expected"),
    ("policies:later", "'later' is a coroutine: a plain function is expected"),
])  # fmt: skip
def test_a_wrong_name_is_one_line_at_start(policies: dict[str, str], name: str, said: str) -> None:
    exit_code, out, err = refused("serve", *FREE, "--set", f"{CONFIG}={name}", more=policies)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"klamm serve: {CONFIG}: ")
    assert err.count("\n") == 1
    assert said in err


def test_a_broker_has_no_policy_of_its_own() -> None:
    exit_code, _, err = refused("serve", *FREE, "--broker-set", f"1:{CONFIG}=policies:check")
    assert exit_code == 2
    assert err == f"klamm serve: {CONFIG} of broker 1: the controller decides it, for the whole cluster\n"


async def test_a_named_policy_decides_in_the_server(policies: dict[str, str]) -> None:
    with serving(*FREE, "--set", f"{CONFIG}=policies:Policy.validate", more=policies) as process:
        host, port = addresses(first_line(process))[0]
        async with klamm.AdminClient(f"{host}:{port}") as admin:
            large, small = await admin.create_topics([NewTopic("large", 8, 1), NewTopic("small", 7, 1)])
            assert large.error == klamm.ApiError(ErrorCode.POLICY_VIOLATION, "large: at most 7 partitions")
            assert small.error is None


@pytest.mark.parametrize(("policy", "said"), [
    (PolicyViolation, "the class 'PolicyViolation' is no policy"),
    (trio.sleep, "'sleep' is a coroutine"),
    ("policies:check", "str 'policies:check' cannot be called"),
])  # fmt: skip
def test_a_cluster_takes_functions_only(policy: Callable[[RequestedTopic], None], said: str) -> None:
    with pytest.raises(klamm.ClusterError, match=said):
        klamm.Cluster(topic_policy=policy)


def test_a_cluster_finds_a_named_policy_or_says_so() -> None:
    with pytest.raises(klamm.ClusterError, match=f"^{CONFIG}: the module 'nowhere' cannot be imported"):
        klamm.Cluster(configs={CONFIG: "nowhere:check"})


# The arguments of a call


async def test_it_is_asked_about_topics_that_could_be_made_and_sees_what_they_would_get() -> None:
    requested: list[RequestedTopic] = []
    configs = {"num.partitions": "3", "default.replication.factor": "2", "max.partitions": "9"}
    async with (
        klamm.Cluster(configs=configs, topic_policy=requested.append) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):
        wanted: list[NewTopic | str] = [
            "defaults",
            NewTopic("by-hand", configs={"flush.ms": "5"}, replica_assignments={1: [3, 1], 0: [2, 3]}),
            NewTopic("too-many-replicas", 1, 4),
            NewTopic("bad config", 1, 1),
            NewTopic("beyond-the-limit", 10, 1),
            NewTopic("all", 4, 3),
        ]
        await admin.create_topics(wanted, validate_only=True)
        checked = list(requested)
        made = await admin.create_topics(wanted)
        assert [topic.topic_name for topic in made if topic.error is None] == ["defaults", "by-hand", "all"]
        assert requested == checked * 2
        assert checked == [
            RequestedTopic(topic_name="defaults", num_partitions=3, replication_factor=2, configs={}),
            RequestedTopic(topic_name="by-hand", replica_assignments={0: (2, 3), 1: (3, 1)}, configs={"flush.ms": "5"}),
            RequestedTopic(topic_name="all", num_partitions=4, replication_factor=3, configs={}),
        ]
        requested.clear()
        await admin.create_topics(["defaults"])  # The topic exists already.
        await admin.metadata(["new"], allow_auto_topic_creation=True)
        await admin.create_partitions([klamm.NewPartitions("defaults", 4)])
        assert not requested  # By then the cluster is full.
        await admin.delete_topics(["all"])
        await admin.metadata(["new"], allow_auto_topic_creation=True)
        assert [topic.topic_name for topic in requested] == ["new"]


async def test_refused_topics_take_nothing_and_the_others_go_on(tmp_path: Path) -> None:
    def policy(topic: RequestedTopic) -> None:
        if topic.topic_name.startswith("no"):
            raise PolicyViolation(f"not {topic.topic_name}")
        if topic.topic_name.startswith("bug"):
            raise ValueError("secret")

    log = tmp_path / "requests.jsonl"
    limit = {"max.partitions": "3"}
    async with klamm.Cluster(configs=limit, topic_policy=policy, request_log=log) as cluster:
        admin = await klamm.AdminClient.connect(cluster.bootstrap_servers)
        try:
            wanted = [NewTopic(name, 2, 1) for name in ("no", "bug", "yes", "too-late")]
            for validate_only in (True, False):
                results = await admin.create_topics(wanted, validate_only=validate_only)
                assert [result.error.code if result.error else 0 for result in results] == [44, -1, 0, 44]
                assert results[0].error == klamm.ApiError(ErrorCode.POLICY_VIOLATION, "not no")
                assert results[3].error is not None
                assert "max.partitions=3" in (results[3].error.message or "")
            reported = (await admin.metadata(["no-1", "maybe"], allow_auto_topic_creation=True)).topics
            assert [topic.error.code if topic.error else 0 for topic in reported] == [44, 3]
            assert [topic.topic_name for topic in (await admin.metadata()).topics] == ["yes", "maybe"]
        finally:
            await admin.aclose()
    # Metadata has no field for an error text.
    assert '"error_message":"not no-1"' in log.read_text()


async def test_while_it_is_asked_others_are_served(never: Event) -> None:
    requested = Event()

    def policy(topic: RequestedTopic) -> None:
        if topic.topic_name == "slow":
            requested.set()
            never.wait()

    async with (
        klamm.Cluster(topic_policy=policy) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as waiting,
        klamm.AdminClient(cluster.bootstrap_servers) as other,
        trio.open_nursery() as nursery,
    ):
        results: list[klamm.CreatedTopic] = []

        async def create() -> None:
            results.extend(await waiting.create_topics(["slow", "quick"]))

        nursery.start_soon(create)
        await trio.to_thread.run_sync(requested.wait)
        assert not (await other.metadata()).topics
        assert not results
        nursery_done = trio.current_time() + 30
        while not results:  # within a second of the deadline
            assert trio.current_time() < nursery_done
            await other.metadata()
        refusal = results[0].error
        assert refusal is not None
        assert (refusal.code, refusal.message) == (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "The create-topic policy did not answer within 1 s.",
        )
        assert results[1].error is None
