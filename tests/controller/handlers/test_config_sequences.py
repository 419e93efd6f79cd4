"""Any sequence of alterations, compared with plain dictionaries, and the log of each compared with the image."""

from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.records.configs import ConfigRecord
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.config_requests import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    CONTROLLER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Edit,
    Resource,
    edit,
    incremental,
    replacing,
)
from tests.controller.image_facts import image_facts

NO_SUCH_TOPIC = (TOPIC, "nope")
# Each value is judged alone; the plain model has no levels, types or hash order.
GOOD: dict[int, dict[str, list[str]]] = {
    TOPIC: {"flush.ms": ["1", " 2 "], "preallocate": ["true", "FALSE"], "segment.bytes": ["2000000"]},
    BROKER: {"log.retention.ms": ["5", "-1"], "max.partitions": ["1", "77"], "no.such": ["", "x"]},
    GROUP: {"consumer.session.timeout.ms": ["45000", "50000"], "share.isolation.level": ["read_committed"]},
    CLIENT_METRICS: {"interval.ms": ["100", "500"], "metrics": ["", "a,b"]},
}
BAD: dict[int, list[tuple[str, str]]] = {
    TOPIC: [("flush.ms", "x"), ("no.such", "1"), ("segment.bytes", "1")],
    BROKER: [("max.partitions", "0"), ("max.partitions", "x")],
    GROUP: [("consumer.session.timeout.ms", "1"), ("no.such", "1")],
    CLIENT_METRICS: [("interval.ms", "1"), ("no.such", "1")],
}
RESOURCES: list[Resource] = [
    *((TOPIC, "t"), (TOPIC, "u"), NO_SUCH_TOPIC),
    *((BROKER, ""), (BROKER, "1"), (GROUP, "g"), (CLIENT_METRICS, "m")),
]
POLICIES = ["delete", "compact"]


def edits_of(kind: int) -> st.SearchStrategy[list[Edit]]:
    good = GOOD[kind]
    setting = st.sampled_from([(name, SET, value) for name, values in good.items() for value in values])
    deleting = st.sampled_from([(name, DELETE, None) for name in [*good, "never.set"]])
    refused = st.sampled_from([(name, SET, value) for name, value in BAD[kind]])
    of_list = st.sampled_from(
        [("cleanup.policy", operation, value) for operation in (APPEND, SUBTRACT) for value in POLICIES]
    )
    one = st.one_of(setting, setting, setting, deleting, refused, *([of_list] if kind == TOPIC else []))
    return st.lists(one, max_size=4, unique_by=lambda edit: edit[0])


resources = st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=4, unique=True)


class Step(NamedTuple):
    """One request. AlterConfigs sends only what its edits set."""

    asked: list[tuple[Resource, list[Edit]]]
    replace_all: bool
    validate_only: bool
    broker_id: int | None


@st.composite
def steps(draw: st.DrawFn) -> Step:
    replace_all = draw(st.integers(0, 3)) == 0
    requested = [(resource, draw(edits_of(resource[0]))) for resource in draw(resources)]
    if replace_all:
        requested = [(resource, [edit for edit in edits if edit[1] == SET]) for resource, edits in requested]
    return Step(requested, replace_all, draw(st.integers(0, 3)) == 0, draw(st.sampled_from([1, 1, CONTROLLER])))


def request_of(step: Step) -> Message:
    if not step.replace_all:
        return incremental(step.asked, validate_only=step.validate_only)
    whole = [(resource, {name: value for name, _, value in edits}) for resource, edits in step.asked]
    return replacing(whole, validate_only=step.validate_only)


def model_after(model: dict[Resource, dict[str, str]], resource: Resource, edits: list[Edit]) -> None:
    """The dictionary after one accepted resource of an incremental request."""
    configs = model.setdefault(resource, {})
    for name, operation, value in edits:
        if operation == DELETE:
            configs.pop(name, None)
        elif operation == SET:
            assert value is not None
            configs[name] = value
        else:
            assert value is not None
            present = [item for item in configs.get(name, "delete").split(",") if item]
            without = [item for item in present if item != value]
            more = [*present, value] if value not in present else present
            configs[name] = ",".join(without if operation == SUBTRACT else more)
    if not configs:
        del model[resource]


def is_refused(step: Step, resource: Resource, edits: list[Edit]) -> bool:
    if step.replace_all and resource == (BROKER, ""):
        return True  # The cluster's min.insync.replicas would be removed, which is not allowed.
    return resource == NO_SUCH_TOPIC or any((name, value) in BAD[resource[0]] for name, _, value in edits)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps(), max_size=8))
def test_any_sequence_of_alterations_is_what_dictionaries_make_of_it(sequence: list[Step]) -> None:
    cluster = DrivenCluster(1)
    for name in ("t", "u"):
        cluster.create(name)
    model: dict[Resource, dict[str, str]] = {(BROKER, ""): {"min.insync.replicas": "1"}}
    for step in sequence:
        before = {resource: dict(configs) for resource, configs in cluster.image.configs.items()}
        with cluster.writing() as written:
            answer = cluster.ask(request_of(step), broker_id=step.broker_id)
        codes = {(result.resource_type, result.resource_name): result.error_code for result in answer.responses}
        assert len(codes) == len(answer.responses) == len(step.asked)
        accepted = {resource for resource, edits in step.asked if not is_refused(step, resource, edits)}
        assert {resource for resource, code in codes.items() if code == ErrorCode.NONE} == accepted
        for resource, edits in step.asked:
            if resource in accepted and not step.validate_only:
                if step.replace_all:
                    model.pop(resource, None)
                model_after(model, resource, edits)
        assert cluster.image.configs == model
        changed = {resource for resource in {*before, *model} if before.get(resource) != model.get(resource)}
        recorded = {(r.resource_type, r.resource_name) for r in written if isinstance(r, ConfigRecord)}
        assert changed <= recorded <= (set() if step.validate_only else accepted)
    live = image_facts(cluster.image)
    assert cluster.replayed_facts() == live
    cluster.restart()
    assert image_facts(cluster.image) == live


def test_min_insync_replicas_of_brokers_may_be_removed_and_set_one_by_one_unless_elrs_are_kept() -> None:
    """At level 0 of the feature there are no eligible leader replicas (KIP-966). A start on such a log is refused."""
    cluster = DrivenCluster(1)
    name = "min.insync.replicas"
    for edits in ((BROKER, ""), (name, DELETE, None)), ((BROKER, "1"), (name, SET, "1")):
        assert edit(cluster, *edits)[0] == ErrorCode.INVALID_CONFIG
    del cluster.image.features["eligible.leader.replicas.version"]
    for edits in ((BROKER, ""), (name, DELETE, None)), ((BROKER, "1"), (name, SET, "1")):
        assert edit(cluster, *edits) == (ErrorCode.NONE, None)
