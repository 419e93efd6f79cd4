// Brokers by rack, with their replicas and leaders, and the verbs for each.

import { ask } from "./api.js";
import { byId, h, keyed, number, setText } from "./dom.js";

const AT_ONCE = 60; // cards that are shown; the others are found by the filter, or page by page

export class Brokers {
  constructor(run) {
    this.run = run;
    this.list = []; // by id
    this.known = new Map();
    this.filter = "";
    this.from = 0; // the place of the first shown one among those that the filter finds
    this.isAsked = false;
    byId("clean-logs").addEventListener("click", () => run("retention and compaction are applied", () => ask("POST", "/logs/clean")));
    byId("take-snapshot").addEventListener("click", () => run("a snapshot of the metadata log is durable", () => ask("POST", "/snapshot")));
    byId("add-broker").addEventListener("click", () => run("a broker is added", () => ask("POST", "/brokers")));
    byId("broker-filter").addEventListener("input", (event) => {
      this.filter = event.target.value.trim().toLowerCase();
      this.from = 0;
      this.show();
    });
    byId("brokers-back").addEventListener("click", () => this.turn(-AT_ONCE));
    byId("brokers-on").addEventListener("click", () => this.turn(AT_ONCE));
  }

  load(list) {
    this.known.clear();
    this.change(list, []);
  }

  change(changed, removed) {
    for (const broker of changed) this.known.set(broker.id, broker);
    for (const id of removed) this.known.delete(id);
    this.list = [...this.known.values()].sort((one, other) => one.id - other.id);
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.show();
    });
  }

  turn(by) {
    this.from += by;
    this.show();
  }

  found() {
    if (this.filter === "") return this.list;
    const words = (broker) => [`broker ${broker.id}`, broker.rack ?? "", broker.address, stateOf(broker)[0]];
    return this.list.filter((broker) => String(broker.id) === this.filter
      || words(broker).some((word) => word.toLowerCase().includes(this.filter)));
  }

  show() {
    const found = this.found();
    // By rack, so that the shown ones are in few racks.
    const inOrder = found.length > AT_ONCE ? [...found].sort((one, other) => compare(one.rack ?? "", other.rack ?? "") || one.id - other.id) : found;
    this.from = Math.max(0, Math.min(this.from, AT_ONCE * Math.floor((found.length - 1) / AT_ONCE)));
    const shown = inOrder.slice(this.from, this.from + AT_ONCE);
    this.showPlace(shown.length, found.length);
    const racks = new Map();
    for (const broker of shown) {
      const rack = broker.rack ?? "";
      if (!racks.has(rack)) racks.set(rack, []);
      racks.get(rack).push(broker);
    }
    const most = { replicas: 1, leaders: 1 };
    for (const broker of this.list) {
      most.replicas = Math.max(most.replicas, broker.counted);
      most.leaders = Math.max(most.leaders, broker.leaders);
    }
    const named = [...racks].sort(([one], [other]) => compare(one, other));
    keyed(byId("brokers"), named, ([rack]) => rack, ([rack]) => this.createRack(rack), (element, [, brokers]) => {
      keyed(element.querySelector(".cards"), brokers, (broker) => broker.id, (broker) => this.create(broker), (card, broker) => {
        if (card.broker === broker && card.replicas === most.replicas && card.leaders === most.leaders) return;
        Object.assign(card, most);
        this.update(card, broker, most);
      });
    });
  }

  showPlace(shown, found) {
    const isLarge = this.list.length > AT_ONCE;
    byId("broker-tools").hidden = !isLarge;
    if (!isLarge) return;
    setText(byId("brokers-place"), shown ? `${number(this.from + 1)}–${number(this.from + shown)} of ${number(found)}` : "none");
    byId("brokers-back").disabled = this.from === 0;
    byId("brokers-on").disabled = this.from + shown >= found;
  }

  createRack(rack) {
    const title = rack === "" ? "without a rack" : `rack ${rack}`;
    return h("section", { class: "rack", "aria-label": title }, h("h3", {}, title), h("div", { class: "cards" }));
  }

  create(broker) {
    const id = broker.id;
    const card = h("article", { class: "broker", "aria-label": `broker ${id}` },
      h("div", { class: "row" }, h("strong", {}, `${id}`), h("span", { class: "badge" }), h("span", { class: "address mono quiet" })),
      meter("replicas"), meter("leaders"));
    if (!broker.simulated) {
      card.append(h("p", { class: "quiet" }, "a broker of its own: it is not steered here"));
      return card;
    }
    const verb = (label, does, method, path, body, className = "") =>
      h("button", { class: className, "aria-label": `${label} broker ${id}`, "data-verb": label.toLowerCase(),
        onclick: () => this.run(`broker ${id}: ${does}`, () => ask(method, `/brokers/${id}${path}`, body)) }, label);
    card.append(
      h("div", { class: "verbs" },
        verb("Stop", "shut down", "POST", "/stop", undefined, "when-up"),
        verb("Kill", "crashed", "POST", "/kill", undefined, "when-up"),
        verb("Start", "started", "POST", "/start", undefined, "when-down"),
        h("details", { ontoggle: (event) => this.addMore(event.target, id, verb, card) },
          h("summary", { "aria-label": `more for broker ${id}` }, "More"))));
    return card;
  }

  // The rarer verbs. They are created when they are first opened, so that the cards have fewer elements.
  addMore(details, id, verb, card) {
    if (details.querySelector(".verbs")) return;
    details.append(
      h("div", { class: "verbs" },
        verb("Fence", "fenced", "POST", "/fence", undefined, "when-up"),
        verb("Unfence", "unfenced", "POST", "/unfence", undefined, "when-up"),
        verb("Expire session", "its session expired", "POST", "/expire-session"),
        verb("Take disk", "its disk is away", "POST", "/disk", { away: true }),
        verb("Return disk", "its disk is back", "POST", "/disk", { away: false }),
        verb("Hold replication", "its followers fetch nothing", "POST", "/replication", { rate: 0 }),
        verb("Resume replication", "its followers fetch as others", "POST", "/replication", { rate: null }),
        verb("Remove", "removed", "DELETE", "", undefined, "danger")),
      h("ul", { class: "log-dirs", "aria-label": `log directories of broker ${id}` }));
    this.updateLogDirs(card, card.broker);
  }

  updateLogDirs(card, broker) {
    const directories = card.querySelector(".log-dirs");
    if (directories) keyed(directories, broker.log_dirs, (one) => one.path, (one) => this.createLogDir(broker.id, one), updateLogDir);
  }

  update(card, broker, most) {
    card.broker = broker;
    const [state, tone] = stateOf(broker);
    const badge = card.querySelector(".badge");
    setText(badge, state);
    badge.dataset.tone = tone;
    setText(card.querySelector(".address"), broker.address);
    card.classList.toggle("is-down", !broker.up);
    setMeter(card.querySelector(".replicas"), broker.counted, broker.limit ?? most.replicas,
      broker.limit === null ? number(broker.replicas) : `${number(broker.counted)} of ${number(broker.limit)}`,
      broker.limit !== null);
    setMeter(card.querySelector(".leaders"), broker.leaders, most.leaders, number(broker.leaders), false);
    this.updateLogDirs(card, broker);
  }

  createLogDir(id, { path }) {
    const change = (failed, does) => () =>
      this.run(`broker ${id}: ${path} ${does}`, () => ask("POST", `/brokers/${id}/log-dirs`, { log_dir: path, failed }));
    return h("li", {}, h("span", { class: "mono" }, path), " ", h("span", { class: "quiet" }), " ",
      h("button", { class: "fail", "aria-label": `Fail ${path} of broker ${id}`, onclick: change(true, "is offline") }, "Fail"),
      h("button", { class: "repair", "aria-label": `Repair ${path} of broker ${id}`, onclick: change(false, "is repaired") }, "Repair"));
  }
}

const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

function updateLogDir(row, directory) {
  setText(row.children[1], directory.failed ? "failed" : directory.online ? "online" : "offline until the next start");
  row.querySelector(".fail").hidden = directory.failed;
  row.querySelector(".repair").hidden = !directory.failed;
}

function stateOf(broker) {
  if (!broker.up) return [broker.fenced ? "down" : "down, not fenced yet", "bad"];
  if (broker.fenced) return ["fenced", "warn"];
  if (broker.leaving) return ["shutting down", "warn"];
  return broker.no_disk ? ["up, disk away", "warn"] : ["up", "good"];
}

function meter(name) {
  return h("div", { class: `meter ${name}` }, h("span", { class: "quiet" }, name), h("span", { class: "track" }, h("span", { class: "fill" })),
    h("span", { class: "value mono" }));
}

function setMeter(element, value, most, text, isLimit) {
  const fill = element.querySelector(".fill");
  const part = most ? Math.min(1, value / most) : 0;
  fill.style.width = `${(100 * part).toFixed(1)}%`;
  fill.classList.toggle("near", isLimit && part >= 0.9);
  setText(element.querySelector(".value"), text);
}
