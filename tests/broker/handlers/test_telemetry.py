"""GetTelemetrySubscriptions and PushTelemetry: who is subscribed to what, times, and what is kept. The recorded answers
are in tests/behaviour."""

import gzip
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.data.codecs import pack
from klamm.broker.telemetry.collected import PushingClient
from klamm.broker.telemetry.instances import MAX_INSTANCES, ClientInstance, ClientInstances
from klamm.broker.telemetry.subscriptions import DEFAULT_INTERVAL_MS, Subscribed
from klamm.controller.client import Client
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from klamm.protocol.messages.cluster.push_telemetry import PushTelemetryRequest
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.broker.telemetry.otlp_bytes import gauge, metrics_data, point
from tests.controller.handlers.cluster import DrivenCluster

SECOND = 1000
ID = Uuid(b"client instance!")
CLIENT_METRICS = 16
TOO_EARLY, NO = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NONE
METRICS = metrics_data(gauge("m", point(4)))


class WatchedCluster(DrivenCluster):
    """A cluster that reads what clients push. Requests come from a client that has named itself."""

    def __init__(self, brokers: int = 1, *, telemetry: bool = True, **options: Any) -> None:
        self.telemetry = telemetry
        super().__init__(brokers, **options)

    def start(self, *arguments: Any) -> None:
        self.settings = replace(self.settings, client_telemetry=self.telemetry)
        super().start(*arguments)

    def call(self, request: Message, **options: Any) -> Any:
        client = Client("broker", 1, software_name="apache-kafka-java", software_version="4.3.0", port=50_000)
        return replace(super().call(request, **options), host="127.0.0.1", client=client)

    def subscribe(self, name: str = "s", **configs: str | None) -> None:
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=int(value is None), value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
        answer = self.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message

    def get(self, client_instance_id: Uuid = ID, broker_id: int = 1) -> Any:
        return self.ask(GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id), broker_id=broker_id)

    def kept(self) -> list[PushingClient]:
        """The clients whose metrics are kept."""
        assert self.brokers.collected_metrics is not None
        return list(self.brokers.collected_metrics)

    def push(self, subscription_id: int, metrics: bytes = METRICS, **fields: Any) -> int:
        request = PushTelemetryRequest(
            **{"client_instance_id": ID, "subscription_id": subscription_id, "metrics": metrics, **fields}
        )
        code: int = self.ask(request).error_code
        return code


@pytest.fixture
def cluster() -> WatchedCluster:
    cluster = WatchedCluster()
    cluster.subscribe(metrics="a.,b.", interval_ms="1000")
    return cluster


def test_a_client_gets_an_id_if_it_has_none(cluster: WatchedCluster) -> None:
    ids = {cluster.get(ZERO_UUID).client_instance_id for _ in range(3)}
    assert len(ids) == 3
    assert ZERO_UUID not in ids
    assert cluster.get().client_instance_id == ID


def test_of_several_subscriptions_the_metrics_add_up_and_the_shortest_interval_counts(cluster: WatchedCluster) -> None:
    cluster.subscribe("other", metrics="b.,c.", interval_ms="500")
    cluster.subscribe("for others", metrics="d.", interval_ms="100", match="client_id=someone")
    answer = cluster.get()
    assert (sorted(answer.requested_metrics), answer.push_interval_ms) == (["a.", "b.", "c."], 500)
    cluster.subscribe("all", metrics="*")
    answer = cluster.get()
    assert (list(answer.requested_metrics), answer.push_interval_ms) == (["*"], 500)


@pytest.mark.parametrize(("match", "fits"), [
    ("client_id=test", True), ("client_id=te.*", True), ("client_id=te", False), ("client_id=x|test", True),
    ("client_software_name=apache-.*,client_software_version=4\\.3\\..*", True),
    ("client_software_name=apache-.*,client_software_version=4\\.2\\..*", False),
    ("client_source_address=127\\.0\\.0\\.1,client_source_port=50000", True), ("client_source_port=5", False),
    (f"client_instance_id={ID}", True), ("client_id=(?!x)test", False),
])  # fmt: skip
def test_all_patterns_of_a_subscription_have_to_match(match: str, fits: bool) -> None:
    cluster = WatchedCluster()
    cluster.subscribe(metrics="a.", match=match)
    assert list(cluster.get().requested_metrics) == (["a."] if fits else [])


def test_a_change_of_subscriptions_is_a_new_one_at_once(cluster: WatchedCluster) -> None:
    before = cluster.get()
    assert cluster.get().error_code == TOO_EARLY
    cluster.subscribe(metrics="c.")
    after = cluster.get()
    assert list(after.requested_metrics) == ["c."]
    assert after.subscription_id != before.subscription_id
    assert cluster.push(before.subscription_id) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    cluster.subscribe(metrics=None, interval_ms=None)
    assert (list(cluster.get().requested_metrics), cluster.get(ZERO_UUID).push_interval_ms) == ([], DEFAULT_INTERVAL_MS)


def test_a_subscription_id_is_that_of_the_content_and_the_client(cluster: WatchedCluster) -> None:
    first = cluster.get().subscription_id
    cluster.clock.advance(SECOND)
    assert cluster.get().subscription_id == first
    assert cluster.get(Uuid(b"another instance")).subscription_id != first


def test_subscriptions_are_asked_for_once_in_an_interval(cluster: WatchedCluster) -> None:
    cluster.get()
    cluster.clock.advance(SECOND - 1)
    refused = cluster.get()
    assert (refused.error_code, refused.client_instance_id, refused.push_interval_ms) == (TOO_EARLY, ZERO_UUID, 0)
    cluster.clock.advance(1)
    assert cluster.get().error_code == NO


def test_pushes_come_once_in_an_interval_but_the_first_one(cluster: WatchedCluster) -> None:
    subscription_id = cluster.get().subscription_id
    assert [cluster.push(subscription_id) for _ in range(2)] == [NO, TOO_EARLY]
    cluster.clock.advance(SECOND - 1)
    assert cluster.push(subscription_id) == TOO_EARLY
    cluster.clock.advance(1)
    assert cluster.push(subscription_id) == NO
    cluster.clock.advance(SECOND)
    cluster.get()
    assert cluster.push(subscription_id) == NO


def test_the_last_push_may_come_early_and_ends_it(cluster: WatchedCluster) -> None:
    subscription_id = cluster.get().subscription_id
    assert cluster.push(subscription_id) == NO
    assert cluster.push(subscription_id, terminating=True) == NO
    cluster.clock.advance(SECOND)
    assert cluster.push(subscription_id) == ErrorCode.INVALID_REQUEST
    (kept,) = cluster.kept()
    assert kept.is_terminated


@pytest.mark.parametrize("reserved", [ZERO_UUID, Uuid(bytes(15) + b"\1")])
def test_a_push_needs_an_instance(cluster: WatchedCluster, reserved: Uuid) -> None:
    assert cluster.push(0, client_instance_id=reserved) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_metrics_come_in_all_codecs(cluster: WatchedCluster, codec: int) -> None:
    subscription_id = cluster.get().subscription_id
    metrics = pack(codec, METRICS) if codec else METRICS
    assert cluster.push(subscription_id, metrics, compression_type=codec) == NO
    (kept,) = cluster.kept()
    assert [(one.name, one.value) for one in kept.points.values()] == [("m", 4)]
    assert (kept.client_id, kept.software_name, kept.host, kept.pushed_ms) == (
        "test", "apache-kafka-java", "127.0.0.1", cluster.clock.now_ms,
    )  # fmt: skip


@pytest.mark.parametrize(("metrics", "fields", "code"), [
    (b"\xff", {}, ErrorCode.INVALID_RECORD),
    (b"no gzip", {"compression_type": 1}, ErrorCode.INVALID_RECORD),
    (gzip.compress(bytes(5_000_000)), {"compression_type": 1}, ErrorCode.INVALID_RECORD),
    (METRICS, {"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (METRICS, {"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (b"", {"compression_type": 1}, NO),
    (bytes(101), {}, ErrorCode.TELEMETRY_TOO_LARGE),
])  # fmt: skip
def test_metrics_that_are_not_taken(metrics: bytes, fields: Mapping[str, Any], code: ErrorCode) -> None:
    large = code is not ErrorCode.TELEMETRY_TOO_LARGE
    cluster = WatchedCluster(configs={"telemetry.max.bytes": "10000" if large else "100"})
    subscription_id = cluster.get().subscription_id
    assert cluster.push(subscription_id, metrics, **fields) == code
    assert cluster.kept() == []
    assert cluster.push(subscription_id) == TOO_EARLY, "it was a push nevertheless"


def test_many_metrics_are_read_in_steps(cluster: WatchedCluster) -> None:
    subscription_id = cluster.get().subscription_id
    cluster.controller.items_at_once = 10
    metrics = metrics_data(*(gauge(f"m{number}", point(number)) for number in range(95)))
    assert cluster.push(subscription_id, metrics) == NO
    (kept,) = cluster.kept()
    assert len(kept.points) == 95


def test_without_the_option_pushes_are_accepted_and_not_read() -> None:
    cluster = WatchedCluster(telemetry=False)
    assert cluster.brokers.collected_metrics is None
    assert cluster.push(cluster.get().subscription_id, b"\xff") == NO


def test_each_broker_knows_its_own_clients_and_forgets_them_when_it_goes_down() -> None:
    cluster = WatchedCluster(2)
    assert [cluster.get(broker_id=number).error_code for number in (1, 2, 1, 2)] == [NO, NO, TOO_EARLY, TOO_EARLY]
    cluster.brokers.by_id[2].go_down(cleanly=False)
    assert cluster.get(broker_id=2).error_code == NO


INSTANCE = ClientInstance(Subscribed(1, SECOND, (), 0))


def test_instances_are_forgotten_after_three_intervals_and_the_default_one() -> None:
    instances = ClientInstances()
    instances.put(ID, INSTANCE, 0)
    assert instances.find(ID, DEFAULT_INTERVAL_MS, 0) == INSTANCE
    assert instances.find(ID, DEFAULT_INTERVAL_MS + 1, 0) is None
    instances.put(ID, replace(INSTANCE, subscribed=Subscribed(1, DEFAULT_INTERVAL_MS, (), 0)), 0)
    assert instances.find(ID, 3 * DEFAULT_INTERVAL_MS, 0) is not None
    assert instances.find(ID, 3 * DEFAULT_INTERVAL_MS + 1, 0) is None
    assert instances.find(ID, 0, 1) is None, "of other subscriptions"


def test_instances_cannot_fill_the_memory() -> None:
    instances = ClientInstances(most=2)
    for number in (1, 2, 1, 3):
        instances.put(Uuid(bytes((number,)) * 16), INSTANCE, 0)
    assert len(instances) == 2
    assert instances.find(Uuid(b"\2" * 16), 0, 0) is None
    assert ClientInstances()._most == MAX_INSTANCES
