// Brokers by rack, with their replicas and leaders, and the verbs for each.

import { ask } from "./api.js";
import { byId, h, keyed, number, setText } from "./dom.js";

export class Brokers {
  constructor(run) {
    this.run = run;
    this.list = [];
    byId("clean-logs").addEventListener("click", () => run("retention and compaction are applied", () => ask("POST", "/logs/clean")));
    byId("take-snapshot").addEventListener("click", () => run("a snapshot of the metadata log is durable", () => ask("POST", "/snapshot")));
    byId("add-broker").addEventListener("click", () => run("a broker is added", () => ask("POST", "/brokers")));
  }

  show(list) {
    this.list = list;
    const racks = new Map();
    for (const broker of list) {
      const rack = broker.rack ?? "";
      if (!racks.has(rack)) racks.set(rack, []);
      racks.get(rack).push(broker);
    }
    const most = { replicas: 1, leaders: 1 };
    for (const broker of list) {
      most.replicas = Math.max(most.replicas, broker.counted);
      most.leaders = Math.max(most.leaders, broker.leaders);
    }
    const named = [...racks].sort(([one], [other]) => (one < other ? -1 : 1));
    keyed(byId("brokers"), named, ([rack]) => rack, ([rack]) => this.createRack(rack), (element, [, brokers]) => {
      keyed(element.querySelector(".cards"), brokers, (broker) => broker.id, (broker) => this.create(broker),
        (card, broker) => this.update(card, broker, most));
    });
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

  // The rarer verbs. They are created when they are first opened, so that the cards of 1,000 brokers have fewer elements.
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
