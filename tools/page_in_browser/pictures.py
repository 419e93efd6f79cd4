"""Draws the pictures of docs/page.md: a cluster with clients, a broker that is down, moves and fault rules.

scripts/picture_of_page
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import klamm
from tools.page_in_browser.checks import opened, wait_for_text, wait_until
from tools.page_in_browser.chromium import ROOT, found_chromium, open_chromium, put_playwright_on_the_path

PICTURES: Final = ROOT / "docs" / "pictures"
TOPICS: Final = {"orders": 24, "payments": 12, "shipments": 48, "customers": 6, "audit-log": 16, "clicks": 96}
RECORDS: Final = 600
MOVED: Final = 8
SHOWN: Final = {"page.png": (1280, "light"), "page-dark.png": (1280, "dark"), "page-narrow.png": (400, "light")}


def main() -> None:
    path = found_chromium()
    if path is None:
        raise SystemExit("picture_of_page: found no Chromium")
    put_playwright_on_the_path()
    cluster = klamm.ServerProcess(
        brokers=6, racks=("a", "b", "c"), control=True,
        configs={"max.broker.partitions": 200, "max.partitions": 400},
    )  # fmt: skip
    with cluster as server, clients(server), open_chromium(path) as browser:
        prepare(server)
        for name, (width, scheme) in SHOWN.items():
            with opened(browser, server.control_url, width=width, scheme=scheme) as page:
                wait_for_text(page, "#connection", "live")
                wait_until(lambda page=page: page.locator("#requests .failed").count(), "no request has failed")  # type: ignore[misc]
                if width > 1000:
                    page.focus("#map")
                    for key in ("PageDown", "PageDown", "PageDown", *["ArrowRight"] * 5, "Enter"):
                        page.keyboard.press(key)
                    wait_for_text(page, "#partition", "in sync")
                    page.evaluate("() => document.activeElement.blur()")
                time.sleep(1)
                page.screenshot(path=str(PICTURES / name), full_page=True)


def prepare(server: klamm.ServerProcess) -> None:
    """What is worth a picture."""
    server.stop_broker(5)
    server.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", probability=0.2, id="orders-move")
    server.fail("Fetch", delay_ms=80, client_id="billing-*", id="slow-billing")
    for broker_id in (1, 2, 3):
        server.set_replication_rate(broker_id, 20)
    trio.run(move_partitions, server.bootstrap_servers)


async def move_partitions(bootstrap_servers: str) -> None:
    async with klamm.AdminClient(bootstrap_servers) as admin:
        await admin.alter_partition_reassignments({("clicks", index): [1, 2, 3] for index in range(MOVED)})


@contextmanager
def clients(server: klamm.ServerProcess) -> Iterator[None]:
    """Topics with records, and clients that go on."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "client.id": "terraform"})
    for made in admin.create_topics([NewTopic(name, count, 3) for name, count in TOPICS.items()]).values():
        made.result()
    is_over = threading.Event()
    threads = [threading.Thread(target=work, args=(server, is_over)) for work in (produce, consume)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(12)
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def produce(server: klamm.ServerProcess, is_over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "client.id": "shop-frontend"})
    for number in range(RECORDS * MOVED):
        producer.produce("clicks", b"x" * 20, partition=number % MOVED)
    producer.flush(10)
    while not is_over.wait(0.05):
        for name in ("orders", "payments", "shipments", "customers"):
            producer.produce(name, b"x" * 50)
        producer.poll(0)
    producer.flush(10)


def consume(server: klamm.ServerProcess, is_over: threading.Event) -> None:
    names = {"billing": ["orders", "payments"], "warehouse": ["shipments"]}
    consumers = [
        Consumer({
            "bootstrap.servers": server.bootstrap_servers, "group.id": group, "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
        })
        for group in names
    ]  # fmt: skip
    for consumer, topics in zip(consumers, names.values(), strict=True):
        consumer.subscribe(topics)
    while not is_over.is_set():
        for consumer in consumers:
            consumer.poll(0.05)
    for consumer in consumers:
        consumer.close()


if __name__ == "__main__":
    main()
