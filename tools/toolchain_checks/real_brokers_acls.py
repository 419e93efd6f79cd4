"""ACLs on real 4.3 brokers that have joined Klamm: the StandardAuthorizer of the brokers reads the ACL records of
Klamm's log, and Klamm authorizes what a broker forwards by the principal in the Envelope.

A user logs in by SASL at a listener of its own. Clients without a login are superusers.
"""

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tools.toolchain_checks.joined_brokers import BROKERS, JoinedBrokers
from tools.toolchain_checks.real_brokers_clients import CLIENT_SECONDS, Clients
from tools.toolchain_checks.report import expect

USERS: Final = {"alice": "alices-password"}
TOPIC, OWN_TOPIC = "guarded", "alices-first"
_LOGIN: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": USERS["alice"],
}


class Acls:
    """What alice may do."""

    def __init__(self, cluster: JoinedBrokers) -> None:
        self._clients = Clients(cluster.bootstrap_servers)
        self._admin = AdminClient(self._clients.config)
        self._config: dict[str, Any] = {**self._clients.config, "bootstrap.servers": cluster.users_servers, **_LOGIN}
        self._alice = AdminClient(self._config)

    def refuse(self) -> None:
        """She writes nothing, and makes neither topics nor ACLs."""
        self._clients.create(TOPIC)
        expect(self._write() == KafkaError.TOPIC_AUTHORIZATION_FAILED, f"to write is answered with {self._write()}")
        found = _error(self._make_topic)
        expect(found == KafkaError.TOPIC_AUTHORIZATION_FAILED, f"to make a topic is answered with {found}")
        found = _error(lambda: self._make_acls(self._alice))
        expect(found == KafkaError.CLUSTER_AUTHORIZATION_FAILED, f"to make ACLs is answered with {found}")

    def allow(self) -> None:
        """A superuser gives her ACLs, which a broker forwards to Klamm, and takes one away again."""
        self._make_acls(self._admin)
        self._clients.wait_for("a record of alice", lambda: self._write() is None)
        self._clients.wait_for("a topic of alice", lambda: _error(self._make_topic) is None)
        anything: Any = None
        every = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            "User:alice",
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        self._clients.wait_for(
            "both ACLs",
            lambda: set(self._admin.describe_acls(every).result(CLIENT_SECONDS)) == set(_bindings()),
        )
        (deleted,) = self._admin.delete_acls([every]).values()
        expect(len(deleted.result(CLIENT_SECONDS)) == len(_bindings()), f"deleted are {deleted.result()}")
        self._clients.wait_for("a refusal", lambda: self._write() == KafkaError.TOPIC_AUTHORIZATION_FAILED)

    def _write(self) -> int | None:
        """The code of the error of a record in each partition's leader's log; None: it was written."""
        codes: list[int | None] = []
        producer = Producer(self._config)
        try:
            for partition in range(len(BROKERS)):
                producer.produce(
                    TOPIC,
                    b"x",
                    partition=partition,
                    on_delivery=lambda error, _message: codes.append(error.code() if error else None),
                )
            producer.flush(CLIENT_SECONDS)
        except KafkaException as error:
            return int(error.args[0].code())
        expect(len(codes) == len(BROKERS), "a record has no answer")
        return next((code for code in codes if code is not None), None)

    def _make_topic(self) -> None:
        self._alice.create_topics([NewTopic(OWN_TOPIC, 1, len(BROKERS))])[OWN_TOPIC].result(CLIENT_SECONDS)

    @staticmethod
    def _make_acls(by: AdminClient) -> None:
        for made in by.create_acls(_bindings()).values():
            made.result(CLIENT_SECONDS)


def _bindings() -> list[AclBinding]:
    return [
        AclBinding(ResourceType.TOPIC, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
        for name, pattern, operation in (
            (TOPIC, ResourcePatternType.LITERAL, AclOperation.WRITE),
            ("alices-", ResourcePatternType.PREFIXED, AclOperation.CREATE),
        )
    ]


def _error(call: Callable[[], object]) -> int | None:
    """The code of Kafka's error that the call raises."""
    try:
        call()
    except KafkaException as error:
        return int(error.args[0].code())
    return None
