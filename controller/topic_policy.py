"""What a create-topic policy is asked, and how a decision says that it needs the answers (Kafka: CreateTopicPolicy).

A policy is somebody's Python and may take its time, so it is never called amid a decision. A request is decided with
the verdicts that are there; topics without one are handed out in `Unjudged`, nothing has changed, and the request is
decided anew once the policy was asked. Who asks, and for how long: `klamm.server` and `klamm.cluster.topic_policy`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.protocol.errors import ApiError

TOPIC_POLICY_CONFIG: Final = "create.topic.policy.class.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTopic:
    """A topic that is about to be made, or altered (KIP-179): what a create-topic policy decides about.

    The counts are those that the topic would get, the broker's defaults filled in; both are None where the request
    places by hand. Then `replica_assignments` has the broker ids of each partition, by its index; else it is None.
    `configs` are those of the request alone, or those that the altered topic has. The broker asked found room before.
    """

    topic_name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of asking the policy about one topic."""

    refusal: ApiError | None = None
    """None: the topic may be made."""
    failure: BaseException | None = None
    """Why the policy gave no verdict; the topic is refused then."""


Verdicts = Mapping[str, ApiError | None]
"""What the policy said of the topics of one request, by name; None: the topic may be made."""


class Unjudged(Exception):
    """A request that cannot be decided before the policy has been asked about these topics. Nothing was changed."""

    def __init__(self, topics: Sequence[RequestedTopic]) -> None:
        super().__init__(f"{len(topics)} topics that the policy has to judge")
        self.topics = tuple(topics)
