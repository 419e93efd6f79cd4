// One partition, opened from the map: its replicas, and the verbs for them.

import { ask, Refused } from "./api.js";
import { byId, h } from "./dom.js";

export class PartitionPanel {
  constructor(run) {
    this.run = run;
    this.at = null;
    this.box = byId("partition");
  }

  open(topic, index) {
    this.at = topic && { name: topic.name, row: topic.row, index };
    if (!this.at) {
      this.box.hidden = true;
      this.box.replaceChildren();
      return;
    }
    this.load();
  }

  // What the map shows of it has changed.
  refresh() {
    if (this.at && !this.isLoading) this.load();
  }

  async load() {
    const { name, index } = this.at;
    this.isLoading = true;
    try {
      const found = await ask("GET", `/topics/${encodeURIComponent(name)}/partitions/${index}`);
      if (this.at?.name === name && this.at.index === index) this.show(found);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (this.at?.name === name) this.box.replaceChildren(h("p", { class: "refused" }, error.message));
      this.box.hidden = false;
    } finally {
      this.isLoading = false;
    }
  }

  show(found) {
    const path = `/topics/${encodeURIComponent(found.topic)}/partitions/${found.partition}`;
    const title = `${found.topic}-${found.partition}`;
    const focused = this.box.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const verb = (label, says, where, body) => h("button", { "aria-label": `${label}: ${body.broker ?? body.add ?? body.remove}`,
      onclick: () => this.run(`${title}: ${says}`, () => ask("POST", `${path}/${where}`, body)).then(() => this.refresh()) }, label);
    const replicas = found.replicas.map((id) => {
      const inSync = found.isr.includes(id);
      const verbs = [];
      if (inSync && id !== found.leader) {
        verbs.push(verb("Make leader", `broker ${id} leads`, "leader", { broker: id }), verb("Out of ISR", `broker ${id} left the ISR`, "isr", { remove: id }));
      } else if (!inSync && id >= 0) verbs.push(verb("Into ISR", `broker ${id} joined the ISR`, "isr", { add: id }));
      const what = id < 0 ? "placeholder" : id === found.leader ? "leader" : inSync ? "in sync" : "not in sync";
      return h("li", {}, h("strong", {}, id < 0 ? "–" : `${id}`), h("span", { class: "badge", "data-tone": inSync ? "good" : "warn" }, what), ...verbs);
    });
    this.box.replaceChildren(
      h("div", { class: "head" }, h("h3", {}, title), h("span", { class: "quiet" }, `leader epoch ${found.leader_epoch}`),
        h("button", { "aria-label": "Close the partition", onclick: () => { this.open(null); byId("map").focus(); } }, "Close")),
      h("ul", { class: "replicas" }, ...replicas));
    this.box.hidden = false;
    if (focused) [...this.box.querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
  }
}
