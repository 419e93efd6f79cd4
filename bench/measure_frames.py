"""The frames of the page in Chromium, with 1,000 brokers and 100,000 partitions: how long they last, and how much of
that is script. Figures for docs/page.md.

    python -m bench.measure_frames [--brokers 1000] [--partitions 100000]

Needs Chromium. The page runs in it without a window and without a GPU, so that drawing takes time of the processor,
too. What the threads of the page did is read from Chromium's own trace.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, Final

import klamm
from bench.measure_page import create, load, moving
from bench.rows import percentile
from tools.page_in_browser.chromium import found_chromium, open_chromium, put_playwright_on_the_path

FRAMES: Final = 150
STEP_PIXELS: Final = 40
CATEGORIES: Final = ("devtools.timeline", "toplevel", "v8")
MAIN_THREAD: Final = "CrRendererMain"
SCRIPT: Final = ("FunctionCall", "BlinkScheduler_PerformMicrotaskCheckpoint")
"""Events of the trace in which the page's script runs; none of them contains another."""
RENDERING: Final = (
    "UpdateLayoutTree", "Layout", "PrePaint", "Paint", "Layerize",
    "IntersectionObserverController::computeIntersections",
)  # fmt: skip
_FRAMES: Final = """([count, step]) => new Promise((done) => {
  const at = [];
  const room = document.documentElement.scrollHeight - innerHeight; // once, because reading it makes a layout
  const next = (now) => {
    at.push(now);
    if (step) window.scrollTo(0, (step * at.length) % room);
    if (at.length < count) requestAnimationFrame(next);
    else done(at);
  };
  requestAnimationFrame(next);
})"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.measure_frames")
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=100_000)
    given = parser.parse_args()
    path = found_chromium()
    if path is None:
        raise SystemExit("measure_frames: found no Chromium")
    put_playwright_on_the_path()
    with klamm.ServerProcess(brokers=given.brokers, racks=tuple("abcdefghij"), control=True) as server:
        create(server, given.partitions)
        with open_chromium(path) as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            load(page, server)
            time.sleep(2)  # the script of the page is compiled meanwhile
            for what, step, moves in (
                ("nothing happens", 0, False),
                ("ten leaders a second are moved", 0, True),
                ("the page is scrolled", STEP_PIXELS, False),
                ("both", STEP_PIXELS, True),
            ):
                with moving(server) if moves else nullcontext():
                    browser.start_tracing(page=page, categories=list(CATEGORIES))
                    at = page.evaluate(_FRAMES, [FRAMES, step])
                    show(what, at, json.loads(browser.stop_tracing())["traceEvents"])


def show(what: str, at: Sequence[float], events: Sequence[dict[str, Any]]) -> None:
    gaps = [later - earlier for earlier, later in pairwise(at)]
    threads = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    total, longest = Counter[str](), Counter[str]()
    for one in events:
        if one.get("ph") == "X" and threads.get((one["pid"], one["tid"])) == MAIN_THREAD:
            kind = "script" if one["name"] in SCRIPT else "rendering" if one["name"] in RENDERING else "other"
            took = one.get("dur", 0) / 1000
            total[kind] += took
            longest[kind] = max(longest[kind], took)
    spent = ", ".join(
        f"{kind} {total[kind] / len(at):.1f} ms a frame (longest piece {longest[kind]:.1f} ms)"
        for kind in ("script", "rendering")
    )
    print(
        f"{what}: {len(gaps)} frames, p50 {percentile(gaps, 50):.0f}, p95 {percentile(gaps, 95):.0f}, most "
        f"{max(gaps):.0f} ms; {spent}",
        flush=True,
    )


if __name__ == "__main__":
    main()
