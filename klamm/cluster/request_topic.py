"""Creates the topic of the request log at the start of a cluster, unless the metadata has it already."""

from typing import Final

from klamm.cluster.topics import TopicError, create_topic
from klamm.server.request_log import RequestLog, RequestLogError
from klamm.server.request_topic import CONFIGS, PARTITION, RequestTopic
from klamm.server.server import Server

REPLICAS: Final = 3


async def open_request_topic(server: Server, request_log: RequestLog, topic: RequestTopic) -> None:
    """Create the topic with one partition, on the first brokers that are up, and take lines from now on. They
    are simulated ones: this process has the records. Raises RequestLogError."""
    if topic.name not in server.image.topics_by_name:
        up = [broker_id for broker_id, broker in sorted(server.brokers.by_id.items()) if broker.is_up]
        try:
            await create_topic(
                server, topic.name, configs=CONFIGS, replica_assignments={PARTITION: up[:REPLICAS]} if up else None
            )
        except TopicError as error:
            raise RequestLogError(f"request topic: {error}") from error
    request_log.flush()  # the lines about this request are not for the topic
    topic.is_open = True
