"""The part of the demonstration in which a broker stops and starts: leaders move, and a placeholder is filled."""

from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cluster.server_process import ServerProcess
from tools.demo_tables import say

TIMEOUT_SECONDS = 20
STOPPED = 3
MOST_PARTITIONS = 10
OPTIONS = (
    "--set",
    "enable.under.replicated.topic.creation=true",
    "--set",
    f"max.broker.partitions={MOST_PARTITIONS}",
)
QUIET = {"log_level": 0}  # librdkafka would write each lost connection to stderr


class BrokersFailed(Exception):
    """Raised when the cluster did not do what the story says; the text says what."""


def _is_whole(admin: AdminClient, topic: str) -> bool:
    return _seen(admin, topic)[2] == [1, 2, 3]


def _seen(admin: AdminClient, topic_name: str) -> tuple[int, list[int], list[int]]:
    """Leader, replicas and ISR of the topic's partition 0, as librdkafka reports them."""
    partition = admin.list_topics(topic_name, timeout=TIMEOUT_SECONDS).topics[topic_name].partitions[0]
    return partition.leader, list(partition.replicas), sorted(partition.isrs)


def _show(admin: AdminClient, topic_name: str, words: str) -> tuple[int, list[int], list[int]]:
    leader, replicas, isr = _seen(admin, topic_name)
    say(f"  {words:<28} leader {leader}  replicas {replicas}  ISR {isr}")
    return leader, replicas, isr


def _expect(true: bool, claim: str) -> None:
    if not true:
        raise BrokersFailed(f"broker {STOPPED} stops: {claim}")


def _consumed(server: ServerProcess, topic_name: str) -> bytes | None:
    consumer = Consumer({**QUIET, "bootstrap.servers": server.bootstrap_servers, "group.id": "demo"})
    try:
        consumer.assign([TopicPartition(topic_name, 0, 0)])
        message = consumer.poll(TIMEOUT_SECONDS)
        return message.value() if message is not None and not message.error() else None
    finally:
        consumer.close()


def _refused(admin: AdminClient) -> None:
    try:
        admin.create_topics([NewTopic("large", 100, 3)])["large"].result(TIMEOUT_SECONDS)
    except KafkaException as error:
        code = error.args[0].code()
        _expect(code == KafkaError.POLICY_VIOLATION, f"a topic above the limit got error {code}")
        say(f"  100 partitions are refused ({code}): max.broker.partitions is {MOST_PARTITIONS}")
    else:
        raise BrokersFailed("a topic above the limit was created")


def play_brokers(server: ServerProcess) -> None:
    """Needs a server with three brokers, the control interface and `OPTIONS`."""
    admin = AdminClient({**QUIET, "bootstrap.servers": server.bootstrap_servers})
    say(f"Broker {STOPPED} stops and starts again:")
    by_hand = NewTopic("orders", num_partitions=1, replica_assignment=[[STOPPED, 1, 2]])
    admin.create_topics([by_hand])["orders"].result(TIMEOUT_SECONDS)
    _expect(_show(admin, "orders", "created")[0] == STOPPED, "it does not lead its topic")
    producer = Producer({**QUIET, "bootstrap.servers": server.bootstrap_servers, "acks": "all"})
    producer.produce("orders", value=b"one castle")
    _expect(producer.flush(TIMEOUT_SECONDS) == 0, "a record was not written")
    server.stop_broker(STOPPED)
    leader, _, isr = _show(admin, "orders", f"broker {STOPPED} is stopped")
    _expect(leader != STOPPED and isr == [1, 2], "no other broker leads, or the ISR did not shrink")
    value = _consumed(server, "orders")
    _expect(value == b"one castle", f"the record was not consumed from the new leader: {value!r}")
    say("  the record written before is consumed from the new leader: one castle")
    admin.create_topics([NewTopic("waiting", 1, 3)])["waiting"].result(TIMEOUT_SECONDS)
    _expect(_show(admin, "waiting", "created with a placeholder")[1][-1] == -1, "the topic has no placeholder")
    server.start_broker(STOPPED)
    for name in ("orders", "waiting"):
        server.wait_until(partial(_is_whole, admin, name))
        _, replicas, _ = _show(admin, name, f"{name}: broker {STOPPED} is back")
        _expect(sorted(replicas) == [1, 2, 3], f"{name} has a placeholder left")
    _refused(admin)
    deleted = admin.delete_topics(["orders", "waiting"])
    for result in deleted.values():
        result.result(TIMEOUT_SECONDS)
    say("  the topics are deleted")
