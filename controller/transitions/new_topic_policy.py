"""The create-topic policy within a decision: what to ask it, and its verdicts. No policy is called from here.

As in Apache Kafka 4.3, the policy is asked last, when the topic could be created or altered (KIP-179): names, configs,
counts, brokers and limits are valid. `klamm.controller.topic_policy` describes how a decision waits for the verdict.
"""

from collections.abc import Mapping
from types import MappingProxyType

from klamm.controller.context import RequestContext
from klamm.controller.metadata.columns import Ints
from klamm.controller.topic_policy import RequestedTopic
from klamm.protocol.errors import ApiError, ErrorCode

_NOT_JUDGED = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The create-topic policy has not been asked yet.")


def refusal_by_policy(
    context: RequestContext, topic_name: str, replicas: Ints, configs: Mapping[str, str], *, by_hand: bool
) -> ApiError | None:
    """The policy's reason to refuse a new topic with these replicas, int32[partitions, replication_factor]; else
    None."""
    if context.ledger.verdicts is None:
        return None
    frozen = MappingProxyType(dict(configs))
    if by_hand:
        assignments = {index: tuple(row) for index, row in enumerate(replicas.tolist())}
        topic = RequestedTopic(topic_name=topic_name, replica_assignments=MappingProxyType(assignments), configs=frozen)
    else:
        partitions, replication_factor = replicas.shape
        topic = RequestedTopic(
            topic_name=topic_name, num_partitions=partitions, replication_factor=replication_factor, configs=frozen
        )
    return verdict_on(context, topic)


def verdict_on(context: RequestContext, topic: RequestedTopic) -> ApiError | None:
    """The policy's reason to refuse a topic; None if the policy accepts it or there is no policy.

    A topic without a verdict yet is added to the context as a question, and is refused for this attempt. It takes none
    of the limits, so that a second attempt has no more topics to ask about, whatever the verdicts are.
    """
    if context.ledger.verdicts is None:
        return None
    if topic.topic_name in context.ledger.verdicts:
        return context.ledger.verdicts[topic.topic_name]
    context.ledger.unjudged.append(topic)
    return _NOT_JUDGED
