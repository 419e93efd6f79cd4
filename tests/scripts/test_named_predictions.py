"""The cases that `tools.predictions` once predicted wrongly, without a real cluster. What Apache Kafka 4.3 did is here:
`python -m tools.predictions --named` compares it with the twin's predictions."""

from typing import Final

import klamm
from tools.predictions.named import NAMED
from tools.predictions.running import TWIN_CONFIGS
from tools.predictions.sides import TwinSide
from tools.predictions.steps import DeleteTopic

ACCEPTED: Final[tuple[str, ...]] = ()
REFUSED: Final = ("INVALID_REPLICA_ASSIGNMENT",)
EXPECTED: Final = {
    "replicas of new partitions of a topic of five partitions after a change": (
        [ACCEPTED, ACCEPTED, REFUSED, ACCEPTED, REFUSED, ACCEPTED, REFUSED, ACCEPTED, ACCEPTED],
        [(1, 2), (2, 3), (1, 2, 3), (1, 3), (2, 1, 3), (1, 2)],
    ),
    "the order of an ISR that two brokers join": ([ACCEPTED] * 7, [(1, 2, 3)] * 3),
}
"""By name: the refusals of each step, and the ISRs of the topic before it is deleted."""


async def test_refusals_and_isrs_are_those_of_kafka() -> None:
    assert EXPECTED.keys() == NAMED.keys()
    for name, steps in NAMED.items():
        refused, isrs = [], list[tuple[int, ...]]()
        async with klamm.Cluster(brokers=3, clock="manual", profile="kafka", configs=TWIN_CONFIGS) as cluster:
            twin = TwinSide(cluster)
            for step in steps:
                if isinstance(step, DeleteTopic):
                    isrs = [found.isr for found in twin.state().partitions.values()]
                refused.append(tuple(one.code for one in await twin.do(step)))
        assert (refused, isrs) == EXPECTED[name], name
