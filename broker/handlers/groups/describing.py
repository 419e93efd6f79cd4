"""What ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common, in the order of KafkaApis.

A group with a topic that the requester may not describe is not shown. A group is described once, and returned as often
as it is named, as long as the answer has room.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.broker.handlers.groups.submission import submit_each
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message

GroupT = TypeVar("GroupT", bound=Message)
HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


@dataclass(frozen=True, slots=True)
class Describing(Generic[GroupT]):
    """How groups of one kind are described."""

    described: Callable[..., Any]
    """The class of a described group: `group_id`, `error_code`, `error_message`."""
    response: Callable[..., Message]
    operation: Callable[[GroupsWithStreams, str, Waiter], Outbox]
    topics_of: Callable[[GroupT], Collection[str]]
    hidden_text: str
    """The error message of a group with a topic that the requester may not describe."""
    text_of: Callable[[ErrorCode], str | None] = lambda _code: None
    """The error message when no coordinator can be asked."""

    def all_refused(self, group_ids: Iterable[str], code: ErrorCode) -> Outcome:
        """The answer if none of the groups may be described."""
        return Outcome(self.response(groups=[self._refused(group_id, code) for group_id in group_ids]))

    def ask(
        self, brokers: SimulatedBrokers, context: RequestContext, group_ids: Sequence[str], *, with_operations: bool
    ) -> Outcome:
        """Ask the coordinators of the groups. `with_operations`: what the requester may do with each is shown."""
        denied = context.denied(AclOperation.DESCRIBE, AclResourceType.GROUP, group_ids)
        not_asked = dict.fromkeys(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if "" not in denied:
            not_asked[""] = ErrorCode.INVALID_GROUP_ID
        refused = [self._refused(group_id, not_asked[group_id]) for group_id in group_ids if group_id in not_asked]
        asked = [group_id for group_id in group_ids if group_id not in not_asked]
        distinct = list(dict.fromkeys(asked))

        def finish(found: Sequence[Any]) -> Message:
            seen = dict(zip(distinct, self._as_seen(found, context, with_operations=with_operations), strict=True))
            sizes = {group_id: encoded_at_most(group) for group_id, group in seen.items()}
            room = AnswerRoom()
            told = [
                seen[name] if room.take(name, sizes[name]) else self._refused(name, NO_ROOM.code, NO_ROOM.message)
                for name in asked
            ]
            return self.response(groups=[*refused, *told])

        parts = [
            (
                group_id,
                lambda groups, waiter, _now_ms, group_id=group_id: self.operation(groups, group_id, waiter),
                lambda code, group_id=group_id: self._refused(group_id, code, self.text_of(code)),
            )
            for group_id in distinct
        ]
        return submit_each(brokers, context, parts, finish)

    def _as_seen(self, found: Sequence[Any], context: RequestContext, *, with_operations: bool) -> list[Any]:
        shown = [group for group in found if not group.error_code]
        if with_operations and shown:
            operations = context.authorized_operations(AclResourceType.GROUP, [group.group_id for group in shown])
            for group, bits in zip(shown, operations, strict=True):
                group.authorized_operations = bits
        may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC)
        return [
            group
            if all(map(may_describe, self.topics_of(group)))
            else self._refused(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, self.hidden_text)
            for group in found
        ]

    def _refused(self, group_id: str, code: ErrorCode, message: str | None = None) -> Any:
        return self.described(group_id=group_id, error_code=code, error_message=message)
