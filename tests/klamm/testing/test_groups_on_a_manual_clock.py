"""The configs that the fixtures set: groups of all kinds get their partitions while the clock is manual."""

from pathlib import Path

from tests.klamm.testing.test_pytest_plugin import Suite, outcomes


def test_groups_of_all_kinds_get_their_partitions_while_the_clock_is_manual(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    suite.write(
        "test_it.py",
        """
        import klamm
        import pytest
        import trio
        from confluent_kafka import Consumer, Producer, ShareConsumer
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        HEARTBEATS = ("consumer.min", "consumer", "share.min", "share")
        QUICK = {f"group.{kind}.heartbeat.interval.ms": 200 for kind in HEARTBEATS}
        pytestmark = pytest.mark.klamm(brokers=1, clock="manual", configs=QUICK)

        def test_groups(klamm_cluster):
            address = klamm_cluster.bootstrap_servers
            klamm_cluster.create_topic("orders", 4, 1)
            earliest = [ConfigEntry("share.auto.offset.reset", "earliest",
                incremental_operation=AlterConfigOpType.SET)]
            resource = ConfigResource(ResourceType.GROUP, "sharers", incremental_configs=earliest)
            admin = AdminClient({"bootstrap.servers": address})
            admin.incremental_alter_configs([resource])[resource].result(10)
            producer = Producer({"bootstrap.servers": address})
            producer.produce("orders", b"a")
            assert producer.flush(10) == 0
            config = {"bootstrap.servers": address, "group.id": "g", "group.protocol": "consumer", "log_level": 0}
            consumers = [Consumer(config), Consumer(config)]
            for one in consumers:
                one.subscribe(["orders"])
            assigned = lambda: [one.poll(0.05) or len(one.assignment()) for one in consumers]
            klamm_cluster.wait_until(lambda: assigned() == [2, 2], 25)
            for one in consumers:
                one.close()
            sharer = ShareConsumer({"bootstrap.servers": address, "group.id": "sharers", "log_level": 0})
            sharer.subscribe(["orders"])
            klamm_cluster.wait_until(lambda: [one.value() for one in sharer.poll(0.2)] == [b"a"], 25)
            klamm_cluster.wait_for_group("sharers")
            sharer.close()

        def test_streams(klamm_cluster):
            broker = ConfigResource(ResourceType.BROKER, "1")
            admin = AdminClient({"bootstrap.servers": klamm_cluster.bootstrap_servers})
            found = admin.describe_configs([broker])[broker].result(10)
            for name in ("assignment.interval", "initial.rebalance.delay"):
                assert found[f"group.streams.{name}.ms"].value == "0"

        @pytest.mark.klamm(kafka_version="2.8")
        def test_old(klamm_cluster): pass
        """,
    )
    _, told = suite.run()
    assert outcomes(told) == dict.fromkeys(("test_groups", "test_streams", "test_old"), "PASSED"), told
