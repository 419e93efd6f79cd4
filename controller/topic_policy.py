"""The create-topic policy: what it is asked, and how a decision reports that verdicts are missing (Kafka:
CreateTopicPolicy).

A policy is Python code of the user and may be slow, so it is never called during a decision. A request is decided with
the verdicts that exist. If one is missing, `Unjudged` lists the topics and nothing is changed; the request is decided
again when the policy has been asked. `klamm.server` and `klamm.cluster.topic_policy` ask it and set the time limit.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from klamm.protocol.errors import ApiError
from klamm.quick_dataclasses import dataclass

TOPIC_POLICY_CONFIG: Final = "create.topic.policy.class.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTopic:
    """The argument of the create-topic policy: a topic to create, or to alter (KIP-179).

    The numbers are those of the new topic, with the broker's defaults. Both are None if the request has manual
    assignments. `replica_assignments` then has the broker ids of each partition by its index. Otherwise it is None.
    `configs` are those of the request, or those of the altered topic. The topic has passed the checks of brokers and
    limits."""

    topic_name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of asking the policy about one topic."""

    refusal: ApiError | None = None
    """The policy's refusal; None: the topic is accepted, unless `failure` is set."""
    failure: BaseException | None = None
    """The exception because of which the policy gave no verdict; the topic is refused then."""


Verdicts = Mapping[str, ApiError | None]
"""The policy's verdicts on the topics of one request, by name; None: the topic is accepted."""


class Unjudged(Exception):
    """The request cannot be decided before the policy has judged these topics. Nothing was changed."""

    def __init__(self, topics: Sequence[RequestedTopic]) -> None:
        super().__init__(f"{len(topics)} topics that the policy has to judge")
        self.topics = tuple(topics)
