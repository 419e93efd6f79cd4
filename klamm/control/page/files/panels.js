// The tiles, groups, moves, requests and fault rules.

import { ask } from "./api.js";
import { byId, h, keyed, number, setText } from "./dom.js";

const REQUESTS = 300; // lines that are kept
const SHOWN = 80;

export function showTiles(cluster, brokers, cells) {
  const up = brokers.filter((broker) => broker.up && !broker.fenced).length;
  const limit = cluster.partition_limit;
  const tiles = [
    ["Brokers up", up === brokers.length ? number(up) : `${number(up)} of ${number(brokers.length)}`, up < brokers.length ? "warn" : ""],
    ["Topics", number(cluster.topics), ""],
    [limit === null ? "Partitions" : `Partitions of ${number(limit)}`, number(limit === null ? cluster.partitions : cluster.counted_partitions),
      limit !== null && cluster.counted_partitions >= 0.9 * limit ? "warn" : ""],
    ["Under-replicated", number(cells.underReplicated), cells.underReplicated ? "warn" : ""],
    ["Under min ISR", number(cells.underMinIsr), cells.underMinIsr ? "bad" : ""],
    ["Without leader", number(cells.offline), cells.offline ? "bad" : ""],
    ["Placeholders", number(cluster.placeholders), ""],
    ["Moving", number(cluster.moving), ""],
    ["Groups", number(cluster.groups), ""],
  ];
  tiles.forEach((tile, at) => tile.push(at));
  keyed(byId("tiles"), tiles, (tile) => tile[3], () => h("div", { class: "tile" }, h("dt", {}), h("dd", {})),
    (element, [name, value, tone]) => {
      setText(element.firstChild, name);
      setText(element.lastChild, value);
      element.dataset.tone = tone;
    });
}

export function showGroups(groups, total) {
  setText(byId("groups-count"), groups.length < total ? `${groups.length} of ${number(total)}` : "");
  keyed(byId("groups"), groups, (group) => group.key,
    () => h("tr", {}, h("td", {}, h("span", { class: "name" }), " ", h("span", { class: "kind quiet" })), h("td", {}), h("td", {}), h("td", { class: "number mono" })),
    (row, group) => {
      const [name, state, members, lag] = row.children;
      setText(name.firstChild, group.id === "" ? "(empty id)" : group.id);
      setText(name.lastChild, group.kind);
      setText(state, group.state);
      const clients = group.members.map((member) => member.client_id).join(", ");
      setText(members, group.member_count ? `${group.member_count}: ${clients}${group.member_count > group.members.length ? ", …" : ""}` : "none");
      setText(lag, group.lag === null ? "–" : number(group.lag));
    });
  showEmpty("groups", groups.length, "No group has been seen yet.", 4);
}

export function showMoves(moves, nameOf) {
  setText(byId("moves-count"), moves.shown.length < moves.count ? `${moves.shown.length} of ${number(moves.count)}` : "");
  keyed(byId("moves"), moves.shown, (move) => `${move.row}-${move.partition}`,
    () => h("tr", {}, h("td", { class: "name" }), h("td", { class: "mono" }), h("td", {}, h("progress", { max: 1 }), " ", h("span", { class: "quiet mono" }))),
    (row, move) => {
      const [name, replicas, progress] = row.children;
      setText(name, `${nameOf(move.row)}-${move.partition}`);
      setText(replicas, [...move.adding.map((id) => `+${id}`), ...move.removing.map((id) => `−${id}`)].join(" "));
      const part = move.end ? move.has / move.end : 1;
      progress.firstChild.value = part;
      progress.firstChild.setAttribute("aria-label", `${Math.floor(100 * part)} %`);
      setText(progress.lastChild, `${number(move.has)} of ${number(move.end)}`);
    });
  showEmpty("moves", moves.shown.length, "No partition is being moved.", 3);
}

export class Requests {
  constructor() {
    this.lines = [];
    this.isHeld = false;
    this.isAsked = false;
    byId("only-errors").addEventListener("change", () => this.show());
    const hold = byId("hold");
    hold.addEventListener("click", () => {
      this.isHeld = !this.isHeld;
      hold.setAttribute("aria-pressed", String(this.isHeld));
      this.show();
    });
  }

  load(lines) {
    this.lines = [];
    this.add(lines);
  }

  add(lines) {
    const last = this.lines.length ? this.lines.at(-1).seq : -1;
    this.lines.push(...lines.filter((line) => line.seq > last));
    if (this.lines.length > REQUESTS) {
      // Lines with errors are kept longer, since they are looked for.
      const surplus = this.lines.length - REQUESTS;
      const [failed, fine] = [this.lines.filter((line) => line.error_count), this.lines.filter((line) => !line.error_count)];
      const dropped = Math.min(surplus, Math.max(0, fine.length - REQUESTS / 2));
      this.lines = [...failed.slice(Math.max(0, surplus - dropped)), ...fine.slice(dropped)].sort((one, other) => one.seq - other.seq);
    }
    // Once for all events of a frame.
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.show();
    });
  }

  show() {
    if (this.isHeld) return;
    const wanted = byId("only-errors").checked ? this.lines.filter((line) => line.error_count || line.faults) : this.lines;
    const shown = wanted.slice(-SHOWN).reverse();
    keyed(byId("requests"), shown, (line) => line.seq, (line) => requestRow(line), () => {});
    showEmpty("requests", shown.length, wanted === this.lines ? "No client has asked for anything yet." : "No request had an error.", 6);
  }
}

function requestRow(line) {
  const errors = line.errors.map((error) => {
    const about = error.about === null ? "" : ` ${error.about}${error.partition === null ? "" : `-${error.partition}`}`;
    return h("span", { class: "error" }, `${nameOfError(error.code)}${about}`);
  });
  if (line.error_count > line.errors.length) errors.push(h("span", { class: "quiet" }, `and ${line.error_count - line.errors.length} more`));
  const faults = (line.faults ?? []).length ? [h("span", { class: "fault" }, [].concat(line.faults).join(", "))] : [];
  return h("tr", { class: line.error_count ? "failed" : "" },
    h("td", { class: "mono" }, line.time.slice(11, 23)),
    h("td", {}, line.api, h("span", { class: "quiet" }, ` v${line.api_version}`)),
    h("td", { class: "name", title: line.principal ?? "" }, line.client_id ?? "–"),
    h("td", { class: "number mono" }, line.broker_id ?? "–"),
    h("td", { class: "number mono" }, number(line.microseconds)),
    h("td", { class: "errors" }, ...errors, ...faults));
}

const errorNames = {};
export const setErrorNames = (names) => Object.assign(errorNames, names);
const nameOfError = (code) => errorNames[code] ?? `error ${code}`;

export function showFaults(faults, run) {
  setText(byId("faults-count"), faults.length ? String(faults.length) : "");
  keyed(byId("faults"), faults, (fault) => fault.key,
    (fault) => h("tr", {}, h("td", { class: "name" }, fault.id), h("td", { class: "mono says" }), h("td", { class: "number mono" }), h("td", { class: "number mono" }),
      h("td", {}, h("button", { "aria-label": `Remove rule ${fault.id}`,
        onclick: () => run(`rule ${fault.id} is removed`, () => ask("DELETE", `/faults/${encodeURIComponent(fault.key)}`)) }, "Remove"))),
    (row, fault) => {
      const says = Object.entries(fault.rule).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
      setText(row.children[1], says.join(", "));
      setText(row.children[2], number(fault.hits));
      setText(row.children[3], number(fault.matches));
      row.classList.toggle("is-over", fault.over);
    });
  showEmpty("faults", faults.length, "There is no fault rule.", 5);
}

function showEmpty(id, length, text, columns) {
  const body = byId(id);
  let row = body.parentElement.querySelector("tfoot");
  if (length) row?.remove();
  else {
    row ??= body.parentElement.appendChild(h("tfoot", {}, h("tr", {}, h("td", { colspan: columns, class: "quiet" }))));
    setText(row.querySelector("td"), text);
  }
}
