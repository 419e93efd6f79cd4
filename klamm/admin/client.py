"""`klamm.AdminClient`: a small trio client for the requests that Klamm's own tests and tools need.

It can talk to any cluster whose brokers forward changes to their controller, as KRaft brokers do. Each call sends one
request (or one per broker), never twice, in the newest version that both sides support. Answers become the values of
`klamm.admin.types`; `klamm.admin.errors` has the exceptions. The requests about partitions and replicas are in
`klamm.admin.partitions`, the connections in `klamm.admin.connections`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from klamm.admin import decoding
from klamm.admin.checks import checked_items, expect, expect_configs
from klamm.admin.connections import SERVER_TIMEOUT_MS
from klamm.admin.errors import ClusterUnreachable
from klamm.admin.partitions import PartitionRequests
from klamm.admin.types import (
    ClusterDescription,
    ConfigAlteration,
    ConfigResource,
    ConfigResourceType,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    ResourceConfigs,
    ResourceResult,
    TopicAlteration,
    TopicDescription,
    TopicResult,
)
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.configs import alter_configs, describe_configs, incremental_alter_configs
from klamm.protocol.messages.topics import (
    alter_topics,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
)
from klamm.protocol.uuid import Uuid

_Request = TypeVar("_Request", bound=Message)


class AdminClient(PartitionRequests):
    """A client of one cluster: `async with klamm.AdminClient("127.0.0.1:9092") as admin:`.

    Args:
        bootstrap_servers: `HOST:PORT,HOST:PORT`. The client tries them in this order, and then the brokers in the
            metadata. IPv6 hosts need brackets.
        client_id: the client id in the header of each request (`klamm-admin`).
        request_timeout_seconds: the time limit of one call, with the connection (60 s). For another limit, put the call
            under a trio cancel scope. The client can be used after a cancelled call.
        properties: the settings of Kafka's clients by name, or a file with them, such as `client.properties`:
            security.protocol, ssl.…, sasl.…, client.id, default.api.timeout.ms. A warning names those without effect.
        security_protocol, mechanism, user, password, ca_file, certificate_file: keywords for the usual settings. They
            override `properties`. `client_config("klamm")` of a cluster returns them.
        max_frame_bytes: the largest response, in bytes. A larger one ends the connection. 100 MiB are enough for the
            metadata of two million partitions.

    Raises (the class itself):
        InvalidClientProperties: settings that cannot be used.

    Raises (every method):
        TypeError: an argument has a wrong type, such as one name instead of a list of names.
        ClusterUnreachable: no response. It is then unknown whether the cluster made the change.
        AuthenticationFailed: the broker refused the client's password, token or certificate, or the client refused the
            broker's certificate.
        NotSupportedByBroker: the broker supports no version of the API that can express the request.
        RequestFailed: the broker refused the whole request. If it refuses only some items, the method raises nothing
            and sets the `error` of their results.

    Several tasks may use one client at the same time. Their requests share the connection."""

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False, timeout_ms: int = SERVER_TIMEOUT_MS
    ) -> tuple[CreatedTopic, ...]:
        """Create topics. A name alone means `NewTopic(name)`. Returns one result per name, in the broker's order.

        With `validate_only`, the broker checks the request and creates nothing. `timeout_ms` is the server's time
        limit."""
        body = create_topics.CreateTopicsRequest(
            topics=[decoding.encode_new_topic(topic) for topic in checked_items("topics", topics, NewTopic, str)],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._request(create_topics.API, body)
        return tuple(decoding.decode_created_topic(topic) for topic in answer.topics)

    async def create_partitions(
        self, topics: Iterable[NewPartitions], *, validate_only: bool = False, timeout_ms: int = SERVER_TIMEOUT_MS
    ) -> tuple[TopicResult, ...]:
        """Raise the numbers of partitions of topics to a total. Returns one result per topic."""
        body = create_partitions.CreatePartitionsRequest(
            topics=[decoding.encode_new_partitions(topic) for topic in checked_items("topics", topics, NewPartitions)],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._request(create_partitions.API, body)
        return tuple(decoding.decode_topic_result(t.name, None, t.error_code, t.error_message) for t in answer.results)

    async def alter_topics(
        self,
        alterations: Iterable[TopicAlteration],
        *,
        validate_only: bool = False,
        timeout_ms: int = SERVER_TIMEOUT_MS,
    ) -> tuple[TopicResult, ...]:
        """Alter numbers of partitions, replication factors or assignments (KIP-179). Returns one result per topic.

        A result without an error means that the change has begun. `replica_status` returns the progress of replicas.
        A broker of Apache Kafka does not serve this API. The client then asks the controller, which a broker names in
        DescribeQuorum; Klamm serves the API there, too. A controller of Apache Kafka does not, and the method raises
        `NotSupportedByBroker`."""
        wanted = checked_items("alterations", alterations, TopicAlteration)
        body = alter_topics.AlterTopicsRequest(
            alter_topic_requests=[decoding.encode_topic_alteration(alteration) for alteration in wanted],
            validate_only=validate_only,
            timeout=timeout_ms,
        )
        answer = await self._request_or_controller(alter_topics.API, body)
        return tuple(
            decoding.decode_topic_result(t.topic, None, t.error_code, t.error_message) for t in answer.topic_errors
        )

    async def delete_topics(
        self, topics: Iterable[str | Uuid], *, timeout_ms: int = SERVER_TIMEOUT_MS
    ) -> tuple[TopicResult, ...]:
        """Delete topics by name or by id (`Uuid`). Returns one result per entry, in the broker's order."""
        wanted = checked_items("topics", topics, str, Uuid)
        with self._deadline():
            version = (await self._connected(None)).version_of(delete_topics.API)
        answer = await self._request(delete_topics.API, decoding.encode_deletion(wanted, version, timeout_ms))
        return tuple(
            decoding.decode_topic_result(t.name, t.topic_id, t.error_code, t.error_message) for t in answer.responses
        )

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """The cluster's id and its brokers with their racks."""
        body = describe_cluster.DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)
        return decoding.decode_cluster(await self._request(describe_cluster.API, body))

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> tuple[ResourceConfigs, ...]:
        """The effective configs of each resource, in the order of `resources`. `keys` are the config names. None means
        all configs.

        The client asks a broker for its own configs, and any broker for all other configs."""
        wanted = checked_items("resources", resources, ConfigResource)
        keys = None if keys is None else checked_items("keys", keys, str)
        found: dict[ConfigResource, ResourceConfigs] = {}
        for broker_id, asked in (await self._by_broker(wanted)).items():
            body = describe_configs.DescribeConfigsRequest(
                resources=[decoding.encode_config_resource(resource, keys) for resource in asked],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            answer = await self._request(describe_configs.API, body, broker_id)
            found.update((result.resource, result) for result in map(decoding.decode_resource_configs, answer.results))
        return tuple(found[resource] for resource in wanted if resource in found)

    async def incremental_alter_configs(
        self, alterations: Mapping[ConfigResource, Iterable[ConfigAlteration]], *, validate_only: bool = False
    ) -> tuple[ResourceResult, ...]:
        """Alter some configs of each resource and keep the others. Returns one result per resource, in their order.

        The client asks a broker to alter its own configs, and any broker to alter the others, so this may take several
        requests. With `validate_only`, the broker checks the request and alters nothing."""
        expect("alterations", alterations, Mapping)
        wanted = {
            resource: checked_items("alterations", edits, ConfigAlteration) for resource, edits in alterations.items()
        }

        def body(asked: Iterable[ConfigResource]) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
            return incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[decoding.encode_alterations(resource, wanted[resource]) for resource in asked],
                validate_only=validate_only,
            )

        return await self._alter(incremental_alter_configs.API, wanted, body)

    async def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> tuple[ResourceResult, ...]:
        """Replace all configs of each resource by these. A concurrent change of another client is lost. Prefer
        `incremental_alter_configs`.

        Results, choice of brokers and `validate_only` are as in `incremental_alter_configs`."""
        expect("configs", configs, Mapping)
        for of_one in configs.values():
            expect_configs(of_one)

        def body(asked: Iterable[ConfigResource]) -> alter_configs.AlterConfigsRequest:
            return alter_configs.AlterConfigsRequest(
                resources=[decoding.encode_configs(resource, configs[resource]) for resource in asked],
                validate_only=validate_only,
            )

        return await self._alter(alter_configs.API, configs, body)

    async def _alter(
        self,
        api: Api[_Request, Any],
        wanted: Iterable[ConfigResource],
        body: Callable[[Iterable[ConfigResource]], _Request],
    ) -> tuple[ResourceResult, ...]:
        """Results in the order of the resources; each request goes to the broker that has to handle it."""
        resources = checked_items("resources", wanted, ConfigResource)
        found: dict[ConfigResource, ResourceResult] = {}
        for broker_id, asked in (await self._by_broker(resources)).items():
            answer = await self._request(api, body(asked), broker_id)
            found.update((result.resource, result) for result in map(decoding.decode_resource_result, answer.responses))
        return tuple(found[resource] for resource in resources if resource in found)

    async def describe_topic_partitions(
        self, topics: Iterable[str] | None = None, *, response_partition_limit: int = 2000
    ) -> tuple[TopicDescription, ...]:
        """Topics with their eligible leader replicas, sorted by name (KIP-966). None means all topics.

        Long responses have pages of at most `response_partition_limit` partitions. The method joins them."""
        names = None if topics is None else sorted(set(checked_items("topics", topics, str)))
        pages = decoding.TopicPages()
        while names != [] and not pages.complete:
            body = describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=name) for name in names or ()],
                response_partition_limit=response_partition_limit,
                cursor=pages.cursor,
            )
            if not pages.add(await self._request(describe_topic_partitions.API, body)):
                raise ClusterUnreachable(self._bootstrap_servers, "the pages of DescribeTopicPartitions do not end")
        return pages.topics

    async def _by_broker(self, resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
        """The resources by the id of the broker that has to be asked; None: any broker."""
        by_broker: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            by_broker.setdefault(await self._broker_for(resource), []).append(resource)
        return by_broker

    async def _broker_for(self, resource: ConfigResource) -> int | None:
        """The broker that must be asked, None for any: only a broker itself knows its own configs."""
        of_one_broker = resource.type in {ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER}
        if not of_one_broker or not resource.name.isdecimal():
            return None
        cluster = await self.metadata(())
        self._learn_brokers(cluster.brokers)
        # If the broker is not known, any other broker can answer that it does not exist.
        return int(resource.name) if int(resource.name) in self._broker_addresses else None
