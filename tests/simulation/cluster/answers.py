"""What an answer promises, and what it has to say: noted when it arrives."""

import re
from typing import Any

from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from klamm.protocol.messages.data.produce import ProduceRequest
from klamm.protocol.messages.topics.create_topics import CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.simulation.cluster.asked import Asked
from tests.simulation.cluster.violation import demand
from tests.simulation.cluster.world import Acknowledged, World
from tests.simulation.model_configs import SET

ALL = -1
VALUE = re.compile(rb"<\d+>")
OFFLINE_REPLICAS_SINCE = 5
TOPIC_IDS_SINCE = {"CreateTopics": 7, "DeleteTopics": 6}


def judge_answer(world: World, asked: Asked) -> None:
    """Raises Violation if the answer cannot be right; remembers what it promises."""
    promised = world.witness.promised
    promised.end_offset = max(promised.end_offset, asked.saw or 0)
    request, response = asked.request, asked.response
    if isinstance(request, CreateTopicsRequest) and not request.validate_only:
        for topic in response.topics if asked.version >= TOPIC_IDS_SINCE["CreateTopics"] else ():
            if topic.error_code == ErrorCode.NONE:
                promised.created[topic.topic_id] = topic.num_partitions
    elif isinstance(request, DeleteTopicsRequest) and asked.version >= TOPIC_IDS_SINCE["DeleteTopics"]:
        promised.removed |= {one.topic_id for one in response.responses if one.error_code == ErrorCode.NONE}
    elif isinstance(request, IncrementalAlterConfigsRequest) and not request.validate_only:
        _promise_configs(world, request, response)
    elif isinstance(request, InitProducerIdRequest) and response.error_code == ErrorCode.NONE:
        known = response.producer_id in promised.producer_ids
        demand("no_producer_id_is_given_twice", not known, f"{response.producer_id}")
        promised.producer_ids.add(response.producer_id)
    elif isinstance(request, ProduceRequest) and request.acks == ALL:
        # Whoever was elected uncleanly while the answer was on its way need not have the records.
        if asked.unclean_elections == world.witness.unclean_elections:
            _promise_records(world, request, response, asked.decided_at)
    elif asked.expected is not None:
        told = _what_metadata_said(response)
        demand("metadata_agrees_with_the_image", told == asked.expected, f"{told} but {asked.expected}")


def _promise_configs(world: World, request: IncrementalAlterConfigsRequest, response: Any) -> None:
    for resource, result in zip(request.resources, response.responses, strict=True):
        for config in resource.configs if result.error_code == ErrorCode.NONE else ():
            if config.config_operation == SET:
                kind, name = resource.resource_type, resource.resource_name
                world.witness.promised.configs.add((kind, name, config.name, config.value))


def _promise_records(world: World, request: ProduceRequest, response: Any, decided_at: float) -> None:
    [topic], [answered] = request.topic_data, response.responses
    for data, result in zip(topic.partition_data, answered.partition_responses, strict=True):
        if result.error_code != ErrorCode.NONE:
            continue
        place = topic.topic_id, result.index
        given = world.witness.promised.record_offsets.setdefault(place, {})
        fresh = result.base_offset not in given
        demand("no_acknowledged_offset_is_given_twice", fresh, f"{place}: {result.base_offset}")
        given[result.base_offset] = decided_at
        world.living.acknowledged.append(Acknowledged(place, result.base_offset, _value_of(data.records)))


def _value_of(records: bytes | None) -> bytes:
    """The text that makes a batch different from all others."""
    assert records is not None
    *_, found = VALUE.finditer(records)
    return found[0]


def what_metadata_has_to_say(image: MetadataImage, version: int, request: Message) -> Any:
    """Of all topics, by the image of this moment; None for other requests."""
    if not isinstance(request, MetadataRequest) or request.topics is not None or version < OFFLINE_REPLICAS_SINCE:
        return None
    shown = sorted(broker.broker_id for broker in image.brokers.values() if not broker.fenced)
    topics = {}
    for topic in image.topics_by_name.values():
        found = [image.partitions.read(topic.row, index) for index in range(image.partition_count(topic))]
        topics[topic.name] = [
            (
                partition.leader,
                list(partition.replicas),
                list(partition.isr),
                [replica for replica in partition.replicas if replica not in shown],
            )
            for partition in found
        ]
    return shown, topics


def _what_metadata_said(response: Any) -> Any:
    return [broker.node_id for broker in response.brokers], {
        topic.name: [
            (one.leader_id, list(one.replica_nodes), list(one.isr_nodes), list(one.offline_replicas))
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ]
        for topic in response.topics
    }
