"""The create-topic policy in a decision: what it is asked, and what it said. It is never called from here.

As in Apache Kafka 4.3 its turn comes when the topic could be made, or altered (KIP-179): names, configs, counts,
brokers and limits are in order. `klamm.controller.topic_policy` tells how a decision waits for it.
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
    """Why the policy does not want a new topic with these replicas, int32[partitions, replication_factor]."""
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
    """Why the policy does not want a topic to be so; None: it may be, or there is no policy.

    A topic that it has not judged yet is noted in the context. It takes no room meanwhile, so that a second attempt
    has no more topics to ask about, whatever the policy said.
    """
    if context.ledger.verdicts is None:
        return None
    if topic.topic_name in context.ledger.verdicts:
        return context.ledger.verdicts[topic.topic_name]
    context.ledger.unjudged.append(topic)
    return _NOT_JUDGED
