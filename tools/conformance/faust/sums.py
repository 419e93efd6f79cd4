"""A worker of Faust that sums up the amounts of each customer in a table, whose changelog is a topic of Klamm:

    python sums.py BOOTSTRAP_SERVERS LAST

Each customer's orders have the amounts 0, 1, … The worker prints one line, the sums as JSON, when it has seen LAST
of each of CUSTOMERS, and ends at SIGTERM. A worker that starts later reads the sums so far from the changelog.
"""

import json
import signal
import sys

import faust

CUSTOMERS = 10

signal.alarm(600)  # then it ends, whatever it waits for
servers, last = sys.argv[1], int(sys.argv[2])
app = faust.App(
    "sums",
    broker=[f"kafka://{server}" for server in servers.split(",")],
    store="memory://",
    topic_partitions=3,
    topic_replication_factor=3,
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
)
orders = app.topic("orders", key_type=str, value_type=int, key_serializer="raw", value_serializer="json")
sums = app.Table("sums", default=int, partitions=3)
seen: set[str] = set()


@app.agent(orders)  # type: ignore[untyped-decorator]
async def add_up(stream: faust.StreamT) -> None:
    async for customer, amount in stream.items():
        sums[customer] += amount
        if amount == last:
            seen.add(customer)
            if len(seen) == CUSTOMERS:
                sys.stdout.write(json.dumps(dict(sums.items()), sort_keys=True) + "\n")
                sys.stdout.flush()


faust.Worker(app, loglevel="WARN", redirect_stdouts=False).execute_from_commandline()
