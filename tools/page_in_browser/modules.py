"""Checks of the page's modules within the page: random partitions and layouts, many brokers, cells drawn alone."""

from typing import Any, Final

from tools.toolchain_checks.report import expect

_LAYOUT: Final = """async () => {
  const { Layout } = await import("/page/layout.js");
  let seed = 7;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 60; round++) {
    const topics = Array.from({ length: 1 + random(round < 30 ? 20 : 900) }, () => ({ count: random(200) }));
    const layout = new Layout(topics, 200 + random(2000), 100 + random(900), 1 + random(2), random(7) - 3);
    for (let at = 0; at < topics.length; at++) {
      for (const index of [0, topics[at].count - 1, random(1 + topics[at].count)]) {
        if (index < 0 || index >= topics[at].count) continue;
        const [x, y] = layout.place(at, index);
        const found = layout.hit(x + 1, y + 1);
        if (!found || found[0] !== at || found[1] !== index) return `${JSON.stringify(found)} for ${at}-${index}`;
      }
    }
  }
  return "";
}"""


_CELLS: Final = """async () => {
  const { Cells } = await import("/page/cells.js");
  let seed = 11;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  const store = new Cells();
  const model = new Map();
  const bytesOf = (rows) => {
    const bytes = new Uint8Array(16 * rows.length);
    const words = new DataView(bytes.buffer);
    rows.forEach(([row, index, leader, ...rest], at) => {
      words.setUint32(16 * at, row, true);
      words.setUint32(16 * at + 4, index, true);
      words.setInt32(16 * at + 8, leader, true);
      rest.forEach((value, place) => words.setUint8(16 * at + 12 + place, value));
    });
    return bytes;
  };
  const cell = () => [random(9) - 1, random(64), random(4), random(4), random(2)];
  let rows = 0;
  for (let step = 0; step < 400; step++) {
    const known = [...model.keys()];
    const row = known[random(known.length || 1)];
    const what = random(10);
    if (what < 2 || row === undefined) {
      model.set(rows, []);
      store.addTopic(rows, `t${rows}`);
      rows++;
    } else if (what === 2) {
      model.delete(row);
      store.removeTopics([row, 10 ** 6]);
    } else if (what < 6) {
      const added = Array.from({ length: 1 + random(300) }, cell);
      const from = model.get(row).length;
      model.get(row).push(...added);
      store.write(bytesOf(added.map((one, at) => [row, from + at, ...one])));
    } else if (model.get(row).length) {
      const index = random(model.get(row).length);
      model.get(row)[index] = cell();
      store.write(bytesOf([[row, index, ...model.get(row)[index]], [10 ** 6, 0, ...cell()]]));
    }
    if (step === 200) {
      const all = [...model].flatMap(([row, cells]) => cells.map((one, index) => [row, index, ...one]));
      store.load([...model.keys()].map((row) => [row, `t${row}`]), bytesOf(all.reverse()));
    }
    const counts = [0, 0, 0];
    for (const topic of store.topics) {
      const cells = model.get(topic.row);
      if (!cells || cells.length !== topic.count) return `${topic.count} partitions in step ${step}`;
      cells.forEach((one, index) => {
        const arrays = [store.leader, store.state, store.isr, store.replicas, store.placeholders];
        const found = arrays.map((array) => array[topic.first + index]);
        if (String(found) !== String(one)) throw new Error(`step ${step}: ${found} is not ${one}`);
        [1, 2, 4].forEach((bit, at) => { counts[at] += Number((one[1] & bit) !== 0); });
      });
    }
    if (store.topics.length !== model.size) return `${store.topics.length} topics in step ${step}`;
    const kept = [store.offline, store.underReplicated, store.underMinIsr];
    if (String(counts) !== String(kept)) return `counts in step ${step}`;
  }
  return "";
}"""


def check_cells(page: Any) -> None:
    wrong = page.evaluate(_CELLS)
    expect(wrong == "", wrong)


_TOUCHED: Final = """async () => {
  const { cells, map } = klamm;
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const word = (row, index, state) => new Uint32Array([row, index, 1, 0x010301 * 256 + state]);
  for (const zoom of [0, 3, -3]) {
    for (const filter of ["", "orders"]) {
      map.zoom = zoom;
      map.setFilter(filter);
      await frame();
      map.box.scrollTop = zoom > 0 ? 30 : 0;
      await frame();
      const whole = map.drawnWhole;
      for (const state of [0, 1, 2]) {
        const ends = (topic) => [0, topic.count - 1].map((index) => word(topic.row, index, state));
        const words = cells.topics.flatMap(ends);
        for (const one of words) {
          cells.write(new Uint8Array(one.buffer));
          map.touch(one);
        }
        map.touch(word(10 ** 6, 0, 0));
        await frame();
        const alone = map.pixels.slice();
        if (map.drawnWhole !== whole + state) return `all cells were drawn ${map.drawnWhole - whole} times`;
        map.ask();
        await frame();
        if (map.drawnWhole !== whole + state + 1) return "not all cells were drawn";
        const differs = alone.findIndex((pixel, at) => pixel !== map.pixels[at]);
        if (differs >= 0) return `pixel ${differs} differs, zoom ${zoom}`;
      }
    }
  }
  map.zoom = 0;
  map.setFilter("");
  return "";
}"""


def check_touched(page: Any) -> None:
    wrong = page.evaluate(_TOUCHED)
    expect(wrong == "", wrong)


_MILLION_REQUESTS: Final = """async (hostile) => {
  const { Requests, showFaults } = await import("/page/panels.js");
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const requests = new Requests();
  const error = { code: 3, about: hostile, partition: 1, message: hostile };
  const like = { time: "2026-01-01T00:00:00.000Z", broker_id: 1, principal: hostile, client_id: hostile, api: hostile,
    api_version: 1, microseconds: 5, faults: [hostile], errors: [], error_count: 0 };
  const line = (seq) => (seq % 3 ? { ...like, seq } : { ...like, seq, errors: [error], error_count: 1 });
  const AT_ONCE = 5000;
  for (let first = 0; first < 1_000_000; first += AT_ONCE) {
    // The server sends 120 lines in an event: the others of these are what a slow page might get at once.
    requests.add(Array.from({ length: AT_ONCE }, (_, at) => line(10_000_000 + first + at)));
    if (first % 100_000 === 0) await frame();
  }
  await frame();
  const rows = [...document.querySelectorAll("#requests tr")];
  const failed = rows.find((row) => row.className === "failed");
  const [text, title, kept] = [failed.textContent, failed.querySelector(".name").title, requests.lines.length];
  // The server accepts letters and digits in ids of rules; the page does not rely on it.
  showFaults([{ id: hostile, key: hostile, rule: { [hostile]: hostile }, hits: 1, matches: 1, over: false }], () => {});
  const rule = document.getElementById("faults").textContent;
  const made = "#requests img, #requests script, #faults img, #faults script, #faults b";
  const elements = document.querySelectorAll(made).length;
  showFaults([], () => {});
  requests.load([]);
  await frame();
  const times = (whole) => whole.split(hostile).length - 1;
  return [rows.length, kept, times(text), title === hostile, times(rule), elements];
}"""


def check_million_requests(page: Any, hostile: str) -> None:
    """The page itself has other lines: its next event shows them again."""
    found = page.evaluate(_MILLION_REQUESTS, hostile)
    expect(found == [80, 300, 4, True, 3, 0], f"{found}")


_MANY_BROKERS: Final = """async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const { brokers } = klamm;
  const own = brokers.list.length;
  const like = { ...brokers.list[0], simulated: false, leaders: 0, log_dirs: [] };
  const made = (id) => ({ ...like, id, rack: `r${id % 9}`, address: `h${id}:1` });
  const ids = Array.from({ length: 1000 }, (_, at) => 5000 + at);
  const shown = () => [...document.querySelectorAll("#brokers article strong")].map((one) => Number(one.textContent));
  const place = () => document.getElementById("brokers-place").textContent;
  const found = [];
  brokers.change(ids.map(made), []);
  await frame();
  found.push(shown().length, place() === `1–60 of ${(1000 + own).toLocaleString("en")}`);
  const first = shown();
  document.getElementById("brokers-on").click();
  found.push(shown().length, shown().some((id) => first.includes(id)));
  let updates = 0;
  const update = brokers.update.bind(brokers);
  brokers.update = (...given) => { updates++; update(...given); };
  const id = shown()[7];
  brokers.change([{ ...made(id), up: false }, { ...made(first[3]), up: false }], []);
  await frame();
  found.push(updates, document.querySelector(`article[aria-label="broker ${id}"] .badge`).textContent);
  const filter = document.getElementById("broker-filter");
  const search = (text) => { filter.value = text; filter.dispatchEvent(new Event("input")); };
  search("down");
  found.push(shown().filter((one) => one >= 5000).length);
  search("h5123:");
  found.push(String(shown()), place());
  search("5124");
  found.push(String(shown()));
  search("no such broker");
  found.push(shown().length, place());
  search("");
  document.getElementById("brokers-on").click();
  brokers.change([], ids);
  await frame();
  found.push(shown().length === own, document.getElementById("broker-tools").hidden);
  delete brokers.update;
  return found;
}"""
_OF_MANY: Final = [60, True, 60, False, 1, "down, not fenced yet", 2, "5123", "1–1 of 1", "5124", 0, "none", True, True]


def check_many_brokers(page: Any) -> None:
    found = page.evaluate(_MANY_BROKERS)
    expect(found == _OF_MANY, f"{found} is not {_OF_MANY}")


def check_layout(page: Any) -> None:
    wrong = page.evaluate(_LAYOUT)
    expect(wrong == "", f"another cell is hit: {wrong}")
