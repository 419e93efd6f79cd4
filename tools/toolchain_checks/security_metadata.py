"""ACLs, client quotas, SCRAM credentials and producer ids of a cluster: changes of them, and the requests that show
them."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Producer

from klamm import AdminClient
from klamm.protocol.messages.configs import alter_client_quotas, describe_client_quotas
from klamm.protocol.messages.security import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
)
from tools.toolchain_checks.report import expect

SECURE: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Static configs of a cluster that keeps ACLs, and lets everyone without a login do everything."""
TRANSACTION_SECONDS: Final = 120.0
ANY: Final = 1
_KINDS: Final = ((2, "orders", 3), (2, "ord", 4), (3, "billing", 3), (4, "kafka-cluster", 3), (5, "tx", 4))
"""Resource type, name and pattern type (3 is literal, 4 is prefixed)."""
_MECHANISMS: Final = ((1, "sha256"), (2, "sha512"))
_QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


async def change_security(admin: AdminClient, number: int, *, has_users: bool = True) -> None:
    """Create ACLs, quotas and credentials of their own number, and delete some of an earlier one. `has_users`: a
    cluster before 3.5 has no credentials without ZooKeeper. Raises CheckFailed if something is refused."""
    creations = [
        create_acls.AclCreation(
            resource_type=kind,
            resource_name=name if kind == 4 else f"{name}-{number}",
            resource_pattern_type=pattern,
            principal=f"User:u{number}",
            host="*" if number % 2 else "10.0.0.1",
            operation=3 + at,
            permission_type=3 - number % 2,
        )
        for at, (kind, name, pattern) in enumerate(_KINDS)
    ]
    answer: Any = await admin._request(create_acls.API, create_acls.CreateAclsRequest(creations=creations))
    _expect_done("CreateAcls", answer.results)
    if number % 3 == 2:
        mine = delete_acls.DeleteAclsFilter(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=f"User:u{number - 1}",
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        answer = await admin._request(delete_acls.API, delete_acls.DeleteAclsRequest(filters=[mine]))
        _expect_done("DeleteAcls", answer.filter_results)
    answer = await admin._request(
        alter_client_quotas.API, alter_client_quotas.AlterClientQuotasRequest(entries=_quotas(number))
    )
    _expect_done("AlterClientQuotas", answer.entries)
    for mechanism, algorithm in _MECHANISMS if has_users else ():
        request = _credentials(number, mechanism, algorithm)
        answer = await admin._request(alter_user_scram_credentials.API, request)
        _expect_done("AlterUserScramCredentials", answer.results)


def _quotas(number: int) -> list[Any]:
    data = alter_client_quotas.EntityData
    entities = [
        [data(entity_type="user", entity_name=f"u{number}")],
        [data(entity_type="user", entity_name=None)],
        [data(entity_type="user", entity_name=f"u{number}"), data(entity_type="client-id", entity_name=None)],
        [data(entity_type="client-id", entity_name=f"c{number}")],
        [data(entity_type="ip", entity_name=f"10.0.0.{1 + number % 200}")],
    ]
    return [
        alter_client_quotas.EntryData(
            entity=entity,
            ops=[
                alter_client_quotas.OpData(
                    key="connection_creation_rate" if entity[0].entity_type == "ip" else _QUOTAS[at % len(_QUOTAS)],
                    value=1000.0 + number,
                    remove=number % 4 == 3 and at == 1,
                )
            ],
        )
        for at, entity in enumerate(entities)
    ]


def _credentials(number: int, mechanism: int, algorithm: str) -> Any:
    salt = hashlib.sha256(str(number).encode()).digest()
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
        name=f"u{number}",
        mechanism=mechanism,
        iterations=4096 + number,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(algorithm, b"secret", salt, 1),
    )
    deletions = []
    if number % 3 == 2 and mechanism == 1:
        deletions.append(alter_user_scram_credentials.ScramCredentialDeletion(name=f"u{number - 1}", mechanism=1))
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[upsertion])


def _expect_done(what: str, results: Any) -> None:
    failed = [one for one in results if one.error_code]
    expect(not failed, f"{what}: {failed}")


def commit_transaction(servers: str, topic: str, transactional_id: str) -> None:
    """Write a record to a topic in a transaction: a producer id and, the first time, the topic of transactions."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(TRANSACTION_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"value", transactional_id.encode())
    producer.commit_transaction(TRANSACTION_SECONDS)


async def security_seen(admin: AdminClient, *, has_users: bool) -> dict[str, Any]:
    """What clients see of all that, answer by answer; of the credentials only with `has_users`."""
    all_acls = describe_acls.DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    quotas: Any = await admin._request(describe_client_quotas.API, describe_client_quotas.DescribeClientQuotasRequest())
    acls: Any = await admin._request(describe_acls.API, all_acls)
    found = {
        "acls": (acls.error_code, sorted(map(_acl_lines, acls.resources))),
        "quotas": (quotas.error_code, sorted(map(str, quotas.entries or ()))),
    }
    if has_users:
        all_users = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
        users: Any = await admin._request(describe_user_scram_credentials.API, all_users)
        found["users"] = (users.error_code, sorted(map(_user_line, users.results)))
    return found


def _acl_lines(resource: Any) -> str:
    acls = sorted(map(str, resource.acls))
    return f"{resource.resource_type} {resource.resource_name} {resource.pattern_type}: {acls}"


def _user_line(result: Any) -> str:
    return f"{result.user} {result.error_code} {sorted(map(str, result.credential_infos))}"
