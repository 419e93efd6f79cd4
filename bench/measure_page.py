"""The page and the metrics with 100,000 partitions: how soon the page paints, how soon a change is on it, and what both
cost other clients. Figures for docs/page.md and docs/metrics.md.

    python -m bench.measure_page [--partitions 100000]

Needs Chromium. The page runs in it without a window and without a GPU. The other client asks for the metadata of one
topic, one request at a time, while leaders are moved by the control interface ten times per second. It does so in turns
without the page, with a process that only reads the events of the page, and with the page in the browser, so that
whatever else the machine does falls on all three. What the reader adds is the server's own work.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import klamm
from bench.processes import cpu_seconds_of
from bench.raw_client import RawClient, many_topics_frame, refuse_errors, topic_metadata_frame
from bench.rows import percentile
from klamm.control.page.feed import UNWATCHED_SECONDS
from klamm.server.request_counts import RequestCounts
from tests.server.test_request_log import make_line
from tools.page_in_browser.chromium import found_chromium, open_chromium, put_playwright_on_the_path

TOPICS = 1_000
TOPICS_AT_ONCE = 50
LOADS = 9
MOVES = 40
MOVES_PER_SECOND = 10
SECONDS = 10.0
BLOCKS = 6
BLOCK_SECONDS = 3.0
_PAINTED = "() => performance.getEntriesByName('klamm-painted')[0]?.startTime ?? null"
_WATCH = """() => {
  const { cells, map } = window.klamm, draw = map.draw.bind(map);
  window.watched = { slot: 0, leader: null, at: null };
  map.draw = () => {
    draw();
    if (watched.at === null && cells.leader[watched.slot] === watched.leader) watched.at = Date.now();
  };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.measure_page")
    parser.add_argument("--partitions", type=int, default=100_000)
    partitions: int = parser.parse_args().partitions
    path = found_chromium()
    if path is None:
        raise SystemExit("measure_page: found no Chromium")
    put_playwright_on_the_path()
    with klamm.ServerProcess(brokers=6, racks=("a", "b", "c"), control=True) as server:
        create(server, partitions)
        with open_chromium(path) as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            print_row("first paint", [load(page, server) for _ in range(LOADS)], "ms after the navigation began")
            page.evaluate(_WATCH)
            moves = [move_and_watch(page, server, number) for number in range(MOVES)]
            print_row("a leader is moved", moves, "ms from the answer of the control interface until it is drawn")
            for verb in ("stop", "start"):
                print_row(f"broker 4: {verb}", [change_and_watch(page, server, verb)], "ms from the answer until drawn")
            page.goto("about:blank")
            waits: dict[str, list[list[float]]] = {"without a page": [], "with a reader": [], "with a page": []}
            spent: dict[str, list[float]] = {name: [] for name in waits}
            for block in range(len(waits) * BLOCKS):
                name = list(waits)[block % len(waits)]
                with opened(name, page, server):
                    began = cpu_seconds_of(server.process_id)
                    waits[name].append(others(server))
                    spent[name].append((cpu_seconds_of(server.process_id) - began) / BLOCK_SECONDS)
        for name, blocks in waits.items():
            show_others(name, blocks)
            print(f"the server {name}: {100 * statistics.median(spent[name]):.0f} % of a core", flush=True)
        with scraping(server) as scrapes:
            show_others("while metrics are scraped each second", [others(server) for _ in range(BLOCKS)])
        print_row("a scrape", scrapes, "ms")
    counts, line = RequestCounts(), make_line()
    micros = min(timeit.repeat(lambda: counts.add(line), number=100_000, repeat=7)) * 10
    share = 100 * micros / 1000 / statistics.median(map(statistics.median, waits["without a page"]))
    print(f"counting a request: {micros:.2f} µs, {share:.2f} % of the p50 above")


@contextmanager
def opened(name: str, page: Any, server: klamm.ServerProcess) -> Iterator[None]:
    """The page is open in the browser, is read without one, or neither, after which the server makes no events."""
    if name == "with a page":
        load(page, server)
        yield
        page.goto("about:blank")
    elif name == "with a reader":
        command = [sys.executable, "-m", "bench.page_reader", server.control_url]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None, "it is a pipe"
            reader.stdout.readline()
            yield
            reader.kill()
    else:
        time.sleep(UNWATCHED_SECONDS + 1)
        yield


def create(server: klamm.ServerProcess, partitions: int) -> None:
    with RawClient(address(server)) as client:
        for first in range(0, TOPICS, TOPICS_AT_ONCE):
            names = [f"team-{number:04}.events" for number in range(first, first + TOPICS_AT_ONCE)]
            refuse_errors(client.exchange(many_topics_frame(names, partitions // TOPICS, 3)).payload)


def address(server: klamm.ServerProcess) -> tuple[str, int]:
    host, _, port = server.bootstrap_servers.partition(",")[0].rpartition(":")
    return host, int(port)


def load(page: Any, server: klamm.ServerProcess) -> float:
    page.goto(server.control_url)
    while (painted := page.evaluate(_PAINTED)) is None:
        time.sleep(0.01)
    return float(painted)


def move_and_watch(page: Any, server: klamm.ServerProcess, number: int) -> float:
    """From the answer to the verb until the page has drawn it."""
    topic, index = f"team-{number:04}.events", number % 7
    leader = next(one for one in server.isr(topic, index) if one != server.leader(topic, index))
    place = "klamm.cells.topics.find((topic) => topic.name === name).first + index"
    page.evaluate(
        f"([name, index, leader]) => {{ watched = {{ slot: {place}, leader, at: null }}; }}", [topic, index, leader]
    )
    server.move_leader(topic, index, leader)
    moved = time.time()
    return seen(page, lambda: page.evaluate("() => watched.at")) - 1000 * moved


def seen(page: Any, look: Callable[[], float | None]) -> float:
    give_up_at = time.monotonic() + SECONDS
    while (at := look()) is None:
        if time.monotonic() > give_up_at:
            raise SystemExit("measure_page: the page did not show a change")
        time.sleep(0.005)
    return at


def change_and_watch(page: Any, server: klamm.ServerProcess, verb: str) -> float:
    """From the answer to a stop or start of a broker, which changes half of the partitions, until all is drawn."""
    page.evaluate(
        "() => { const draw = klamm.map.draw; klamm.map.draw = () => { draw(); window.lastDraw = Date.now(); }; }"
    )
    page.evaluate("() => { window.lastDraw = null; }")
    (server.stop_broker if verb == "stop" else server.start_broker)(4)
    answered = time.time()
    last, quiet_since = None, time.monotonic()
    while time.monotonic() - quiet_since < 1.5:
        if (found := page.evaluate("() => window.lastDraw")) != last:
            last, quiet_since = found, time.monotonic()
        time.sleep(0.02)
    return float(last or 0) - 1000 * answered


def others(server: klamm.ServerProcess) -> list[float]:
    """How long another client waits, in ms, while leaders are moved."""
    frame, waits = topic_metadata_frame("team-0500.events"), list[float]()
    with moving(server), RawClient(address(server)) as client:
        end = time.monotonic() + BLOCK_SECONDS
        while time.monotonic() < end:
            began = time.perf_counter()
            client.exchange(frame)
            waits.append(1000 * (time.perf_counter() - began))
            time.sleep(0.001)
    return waits


@contextmanager
def moving(server: klamm.ServerProcess) -> Iterator[None]:
    is_over = threading.Event()

    def move() -> None:
        number = 0
        while not is_over.wait(1 / MOVES_PER_SECOND):
            number += 1
            topic, index = f"team-{number % TOPICS:04}.events", 9
            leader = next(one for one in server.isr(topic, index) if one != server.leader(topic, index))
            server.move_leader(topic, index, leader)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def scraping(server: klamm.ServerProcess) -> Iterator[list[float]]:
    import urllib.request

    is_over, waits = threading.Event(), list[float]()

    def scrape() -> None:
        while not is_over.wait(1):
            began = time.perf_counter()
            with urllib.request.urlopen(f"{server.control_url}/metrics") as response:
                response.read()
            waits.append(1000 * (time.perf_counter() - began))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield waits
    finally:
        is_over.set()
        thread.join()


def print_row(what: str, values: Sequence[float], unit: str) -> None:
    print(
        f"{what}: median {statistics.median(values):.0f}, most {max(values):.0f} {unit} ({len(values)} times)",
        flush=True,
    )


def show_others(what: str, blocks: Sequence[Sequence[float]]) -> None:
    found = [statistics.median(percentile(block, part) for block in blocks) for part in (50, 99)]
    which = f"medians of {len(blocks)} blocks, {sum(map(len, blocks))} requests"
    print(f"others {what}: p50 {found[0]:.2f} ms, p99 {found[1]:.2f} ms ({which})", flush=True)


if __name__ == "__main__":
    main()
