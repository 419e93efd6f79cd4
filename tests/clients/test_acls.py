"""Access control entries from client libraries, against a cluster that has an authorizer.

Where nobody said anything about a resource, everybody may do everything; so the anonymous client begins as the owner of
all, and locks itself out of a topic by letting somebody else in.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern
from kafka.admin import ACLResourcePatternType as PatternType
from kafka.admin import ResourceType as KafkaPythonResourceType

from klamm.cluster.server_process import ServerProcess

SECONDS = 20.0
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


ROOT = Path(__file__).parents[2]


def guarded_server() -> ServerProcess:
    settings = (f"authorizer.class.name={STANDARD_AUTHORIZER}", "allow.everyone.if.no.acl.found=true")
    options = [word for setting in settings for word in ("--set", setting)]
    return ServerProcess("--brokers", "1", "--seed", "7", *options, warm=True)


@pytest.fixture(scope="module")
def guarded() -> Iterator[ServerProcess]:
    with guarded_server() as process:
        yield process


@pytest.fixture(scope="module")
def admin(guarded: ServerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": guarded.bootstrap_servers})


def binding(name: str, principal: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, principal, "*", operation, permission)


def everything_about(name: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.MATCH,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def refusal(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = raised.value.args[0].code()
    return code


def test_entries_are_made_found_obeyed_and_removed_by_confluent_kafka(admin: AdminClient, topic_name: str) -> None:
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(SECONDS)
    for_bob = binding(topic_name, "User:bob", AclOperation.READ, AclPermissionType.ALLOW)
    assert admin.create_acls([for_bob])[for_bob].result(SECONDS) is None
    assert admin.describe_acls(everything_about(topic_name)).result(SECONDS) == [for_bob]

    assert topic_name not in admin.list_topics(timeout=SECONDS).topics
    asked = admin.list_topics(topic_name, timeout=SECONDS).topics[topic_name]
    assert asked.error is not None
    assert asked.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    for name in (topic_name, f"{topic_name}-missing"):
        also_for_bob = binding(name, "User:bob", AclOperation.ALTER, AclPermissionType.ALLOW)
        admin.create_acls([also_for_bob])[also_for_bob].result(SECONDS)
        with pytest.raises(KafkaException) as raised:
            admin.create_partitions([NewPartitions(name, 2)])[name].result(SECONDS)
        assert refusal(raised) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    for_all = binding(topic_name, "User:*", AclOperation.ALTER, AclPermissionType.ALLOW)
    admin.create_acls([for_all])[for_all].result(SECONDS)
    admin.create_partitions([NewPartitions(topic_name, 2)])[topic_name].result(SECONDS)
    assert len(admin.list_topics(timeout=SECONDS).topics[topic_name].partitions) == 2

    wanted = everything_about(topic_name)
    assert len(admin.delete_acls([wanted])[wanted].result(SECONDS)) == 3
    assert admin.describe_acls(wanted).result(SECONDS) == []
    admin.delete_topics([topic_name])[topic_name].result(SECONDS)


def test_entries_are_made_and_removed_by_kafka_python(guarded: ServerProcess, topic_name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers)
    try:
        pattern = ResourcePattern(KafkaPythonResourceType.TOPIC, topic_name, PatternType.PREFIXED)
        acl = ACL("User:bob", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)
        wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)
        made = admin.create_acls([acl])
        assert made["succeeded"] == [acl]
        found, _ = admin.describe_acls(wanted)
        assert found == [acl]
        ((_, removed, _),) = admin.delete_acls([wanted])
        assert removed == [acl]
        assert admin.describe_acls(wanted)[0] == []
    finally:
        admin.close()


def test_the_example_of_the_documentation_prints_what_it_says() -> None:
    page = (ROOT / "docs" / "acls.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    with guarded_server() as process:
        one_server = process.bootstrap_servers.split(",")[0]
        done = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:9092", one_server)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout == printed


def test_confluent_kafka_shows_no_refusal_of_describe_acls() -> None:
    """docs/clients.md warns of it; where this fails it has learned to."""
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    with ServerProcess("--brokers", "1", warm=True) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
        assert admin.describe_acls(everything).result(SECONDS) == []
        with pytest.raises(KafkaException) as raised:
            admin.delete_acls([everything])[everything].result(SECONDS)
        assert refusal(raised) == KafkaError.SECURITY_DISABLED
