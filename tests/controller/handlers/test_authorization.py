"""Every served API, for requesters with and without rights, about resources that exist and that do not. Without any of
the rights in its row a request is refused with the code of the resource, writes nothing, and its answer does not show
whether the resource exists. Texts are compared with the recording in test_recorded_authorization.py."""

from typing import Any

import pytest

from klamm.broker.dispatch import APIS
from klamm.controller.authorizer import AclOperation
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata
from klamm.server.response_errors import collect_errors
from tests.controller.cluster_states import uuid_of
from tests.controller.handlers.authorization_row import DENIALS, TOPIC_DENIED, Row
from tests.controller.handlers.authorization_rows import FREE, ROWS
from tests.controller.handlers.guarded_cluster import DENY, GuardedCluster, cluster_entry, entry

THERE, MISSING = "there-1", "there-2"
OP = AclOperation
SERVED_ROWS = [row for row in ROWS if row.api in APIS]
each_row = pytest.mark.parametrize("row", SERVED_ROWS, ids=[row.what for row in SERVED_ROWS])


@pytest.fixture
def guarded() -> GuardedCluster:
    """One topic; the requesters have no ACLs on it."""
    cluster = GuardedCluster(1)
    cluster.create_at(THERE, [1])
    return cluster


def answer(cluster: GuardedCluster, row: Row, name: str, principal: str | None = "User:alice") -> Any:
    with cluster.asking(principal):
        request = row.request(name)
        return cluster.ask(request, version=row.version, broker_id=None if row.by_controller else 1)


def denials(response: Any) -> list[int]:
    return [error["error_code"] for error in collect_errors(response) if error["error_code"] in DENIALS]


def test_every_api_has_its_row() -> None:
    """An API without a row fails here: add its rights to `authorization_rows`."""
    assert set(APIS) <= {row.api for row in ROWS} | FREE


@each_row
def test_who_has_no_right_is_refused_and_not_told_what_is_there(row: Row, guarded: GuardedCluster) -> None:
    with guarded.writing() as written:
        there, missing = (answer(guarded, row, name) for name in (THERE, MISSING))
    assert [error["error_code"] for error in collect_errors(there)] == [row.refusal]
    assert repr(there).replace(THERE, MISSING) == repr(missing)
    assert written == []


@each_row
def test_who_has_the_right_is_not_refused(row: Row, guarded: GuardedCluster) -> None:
    for right in row.rights:
        for name in (THERE, MISSING):
            guarded.grant(right.entry(name), *row.besides)
            assert denials(answer(guarded, row, name)) == [], right
            guarded.revoke_all()


@each_row
def test_rights_of_others_and_for_other_things_are_of_no_use(row: Row, guarded: GuardedCluster) -> None:
    for right in row.rights:
        guarded.grant(
            right.entry(THERE, principal="User:bob"),
            right.entry(THERE, host="10.9.9.9"),
            right.entry("other") if right.resource_type else entry(right.operation, "other"),
        )
    assert denials(answer(guarded, row, THERE)) == [row.refusal]


@each_row
def test_a_denial_counts_more_than_any_right(row: Row, guarded: GuardedCluster) -> None:
    for right in row.rights:
        guarded.grant(
            right.entry(THERE), right._replace(operation=OP.ALL).entry(THERE, permission=DENY, principal="User:*")
        )
    assert denials(answer(guarded, row, THERE)) == [row.refusal]


@each_row
@pytest.mark.parametrize("principal", ["User:admin", None])
def test_super_users_and_the_cluster_itself_may_do_everything(
    row: Row, principal: str | None, guarded: GuardedCluster
) -> None:
    guarded.grant(entry(OP.ALL, "*", permission=DENY, principal="User:*"), cluster_entry(OP.ALL, permission=DENY))
    assert denials(answer(guarded, row, THERE, principal)) == []


@each_row
def test_without_an_authorizer_nobody_is_refused(row: Row) -> None:
    cluster = GuardedCluster(1, configs={"authorizer.class.name": "", "super.users": ""})
    cluster.create_at(THERE, [1])
    assert denials(answer(cluster, row, THERE)) == []


def test_metadata_of_everything_tells_what_may_be_described(guarded: GuardedCluster) -> None:
    guarded.create_at("seen", [1])
    guarded.grant(entry(OP.DESCRIBE, "seen"))
    for version in (0, 13):
        with guarded.asking():
            everything = metadata.MetadataRequest(topics=None if version else ())
            assert [one.name for one in guarded.ask(everything, version=version).topics] == ["seen"]


def test_automatic_creation_needs_the_right_to_create(guarded: GuardedCluster) -> None:
    guarded.grant(entry(OP.DESCRIBE, "*"), entry(OP.CREATE, "may"))
    with guarded.asking():
        topics = [metadata.MetadataRequestTopic(name=name) for name in ("may", "may-not")]
        response = guarded.ask(metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True))
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("may", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("may-not", TOPIC_DENIED),
    ]
    assert set(guarded.image.topics_by_name) == {THERE, "may"}


def test_items_that_are_allowed_go_through_beside_those_that_are_not(guarded: GuardedCluster) -> None:
    guarded.grant(entry(OP.CREATE, "a"), entry(OP.DESCRIBE_CONFIGS, "a"))
    with guarded.asking():
        topics = [
            create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("b", "a", "c")
        ]
        response = guarded.ask(create_topics.CreateTopicsRequest(topics=topics, timeout_ms=1000))
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("b", TOPIC_DENIED),
        ("a", 0),
        ("c", TOPIC_DENIED),
    ]
    assert set(guarded.image.topics_by_name) == {THERE, "a"}


def test_topic_ids_are_no_secret_but_the_names_of_topics_are(guarded: GuardedCluster) -> None:
    topic_id = guarded.image.topics_by_name[THERE].topic_id
    by_id = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(topic_id=one) for one in (topic_id, uuid_of(9))], timeout_ms=1000
    )
    with guarded.asking():
        hidden = guarded.ask(by_id).responses
    guarded.grant(entry(OP.DESCRIBE, THERE))
    with guarded.asking():
        seen = guarded.ask(by_id).responses
    unknown = (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert [(one.name, one.error_code) for one in hidden] == [(None, TOPIC_DENIED), unknown]
    assert [(one.name, one.error_code) for one in seen] == [(THERE, TOPIC_DENIED), unknown]
