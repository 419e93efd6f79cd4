"""StreamsGroupDescribe: a group as clients see it."""

from collections.abc import Iterable, Mapping

from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.internal_topics import ConfiguredTopology, InternalTopic
from klamm.broker.groups.streams.member import Member
from klamm.broker.groups.streams.tasks import Tasks
from klamm.broker.groups.streams.topology import Topology
from klamm.controller.configs import shortened
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.messages.streams import streams_group_describe as message
from klamm.protocol.records.coordinator.streams_groups import TopicInfo


def describe(group: StreamsGroup | None, exists: bool, group_id: str) -> message.DescribedGroup:
    """The group, or why there is none. Internal topics have sizes when all of them are there."""
    if group is None:
        text = f"Group {group_id} is not a streams group." if exists else f"Group {group_id} not found."
        return message.DescribedGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=shortened(text)
        )
    if group.topology is None:
        return message.DescribedGroup(group_id=group_id, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    configured = group.soft.configured
    is_ready = configured is not None and configured.is_ready
    return message.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_configured(configured) if is_ready and configured is not None else _plain(group.topology),
        members=[_member(member, group.target.get(member.member_id)) for member in group.in_table_order()],
    )


def _configured(topology: ConfiguredTopology) -> message.Topology:
    return message.Topology(
        epoch=topology.epoch,
        subtopologies=[
            message.Subtopology(
                subtopology_id=name,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sinks),
                repartition_source_topics=_internal_topics(each.repartition_sources),
                state_changelog_topics=_internal_topics(each.changelogs),
            )
            for name, each in (topology.subtopologies or {}).items()
        ],
    )


def _internal_topics(topics: Mapping[str, InternalTopic]) -> list[message.TopicInfo]:
    return [
        message.TopicInfo(
            name=name,
            partitions=topics[name].partitions,
            replication_factor=topics[name].replication_factor,
            topic_configs=[message.KeyValue(key=key, value=value) for key, value in topics[name].configs.items()],
        )
        for name in sorted(topics)
    ]


def _plain(topology: Topology) -> message.Topology:
    return message.Topology(
        epoch=topology.epoch,
        subtopologies=[
            message.Subtopology(
                subtopology_id=name,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                repartition_source_topics=_infos(each.repartition_source_topics),
                state_changelog_topics=_infos(each.state_changelog_topics),
            )
            for name, each in sorted(topology.subtopologies.items())
        ],
    )


def _infos(topics: Iterable[TopicInfo]) -> list[message.TopicInfo]:
    return [
        message.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[message.KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: Member, target: Tasks | None) -> message.Member:
    end_point, assigned = member.user_endpoint, member.assigned
    return message.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if end_point is None else message.Endpoint(host=end_point.host, port=end_point.port),
        client_tags=[message.KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        assignment=message.Assignment(
            active_tasks=_tasks(assigned.active),
            standby_tasks=_tasks(assigned.standby),
            warmup_tasks=_tasks(assigned.warmup),
        ),
        target_assignment=message.Assignment()
        if target is None
        else message.Assignment(
            active_tasks=_tasks(target.active),
            standby_tasks=_tasks(target.standby),
            warmup_tasks=_tasks(target.warmup),
        ),
    )


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[message.TaskIds]:
    return [message.TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]
