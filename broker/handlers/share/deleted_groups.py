"""How DeleteGroups deletes one group: the state of a share group's partitions goes before the group does."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.groups.share.offsets import StateDeletion
from klamm.broker.handlers.share.group_offsets import GroupFlow
from klamm.broker.handlers.share.share_version import Begin
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.groups.delete_groups import DeletableGroupResult
from klamm.protocol.uuid import Uuid


def deletion_of(brokers: SimulatedBrokers, context: RequestContext, group_id: str, part: Part) -> Begin:
    """The effect that deletes a group of any kind. The part is resolved with a `DeletableGroupResult`."""
    flow = GroupFlow(brokers, context, group_id, part)

    def delete(image: MetadataImage, errors: dict[Uuid, ApiError], now_ms: int) -> None:
        if errors:
            flow.part.resolve(DeletableGroupResult(group_id=group_id, error_code=next(iter(errors.values())).code))
        else:
            flow.ask_group(image, lambda groups, step: groups.delete(group_id, step), flow.part.resolve, now_ms)

    def begin(image: MetadataImage, now_ms: int) -> None:
        def replied(decided: DeletableGroupResult | StateDeletion) -> None:
            if isinstance(decided, DeletableGroupResult):
                flow.part.resolve(decided)
                return
            places = [(topic_id, index) for topic_id, indexes in decided.partitions.items() for index in indexes]
            if places:
                flow.delete_states(places, delete)
            else:
                delete(image, {}, now_ms)

        flow.ask_group(image, lambda groups, step: groups.begin_delete(group_id, step, now_ms), replied, now_ms)

    return Begin(begin)
