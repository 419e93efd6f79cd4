// Joins the parts: a snapshot, then the events behind it, for as long as the page is open.

import { ask, events, keepToken, Refused, snapshot, takeTokenFromAddress } from "./api.js";
import { Brokers } from "./brokers.js";
import { Cells, decoded } from "./cells.js";
import { Clock } from "./clock.js";
import { byId, setText } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { setErrorNames, Requests, showFaults, showGroups, showMoves, showTiles } from "./panels.js";
import { PartitionPanel } from "./partition.js";

const RETRY_MS = [250, 500, 1000, 2000, 5000];
const MOST_DEAD_SLOTS = 200_000;

const cells = new Cells();
const partition = new PartitionPanel(run);
const map = new HeatMap(cells, (topic, index) => partition.open(topic, index));
const brokers = new Brokers(run);
const requests = new Requests();
const clock = new Clock(run);
let cluster = null;
let groups = [];
let moves = { count: 0, shown: [] };
let seen = 0;

// Does something that the user has asked for, and says what became of it.
async function run(done, work) {
  try {
    await work();
    say(done, "");
  } catch (error) {
    say(error instanceof Refused ? error.message : "the server does not answer", "bad");
  }
}

let saidUntil = 0;
function say(text, tone) {
  const said = byId("said");
  setText(said, text);
  said.dataset.tone = tone;
  said.classList.add("is-shown");
  clearTimeout(saidUntil);
  saidUntil = setTimeout(() => said.classList.remove("is-shown"), 6000);
}

function connection(text, tone) {
  setText(byId("connection"), text);
  byId("connection").dataset.tone = tone;
}

// -- what comes from the server -------------------------------------------------------------------------------------

const take = {
  cells(data) {
    const bytes = decoded(data);
    cells.write(bytes);
    const words = new Uint32Array(bytes.buffer);
    if (partition.at && concerns(words)) partition.refresh();
    map.touch(words);
    tiles();
  },
  topics(data) {
    const { added, removed } = JSON.parse(data);
    for (const [row, name] of added) cells.addTopic(row, name);
    if (removed.length) cells.removeTopics(removed);
    changed();
  },
  cluster(data) {
    cluster = JSON.parse(data);
    setText(byId("cluster-id"), cluster.cluster_id);
    tiles();
  },
  brokers(data) {
    const { changed, removed } = JSON.parse(data);
    brokers.change(changed, removed);
    if (removed.length || map.brokers.length !== brokers.list.length) map.setBrokers(brokers.list);
    tiles();
  },
  groups(data) {
    groups = JSON.parse(data);
    showGroups(groups, cluster.groups);
  },
  moves(data) {
    takeMoves(JSON.parse(data));
  },
  faults(data) {
    showFaults(JSON.parse(data), run);
  },
  requests(data) {
    requests.add(JSON.parse(data));
  },
  clock(data) {
    clock.show(JSON.parse(data));
  },
};

function concerns(words) {
  for (let at = 0; at < words.length; at += 4) {
    if (words[at] === partition.at.row && words[at + 1] === partition.at.index) return true;
  }
  return false;
}

function takeMoves(found) {
  moves = found;
  map.moves = new Map(moves.shown.map((move) => [`${move.row}-${move.partition}`, move]));
  showMoves(moves, (row) => cells.byRow.get(row)?.name ?? "a topic");
}

function changed() {
  map.ask();
  tiles();
}

let tilesAsked = false;
function tiles() {
  if (tilesAsked) return;
  tilesAsked = true;
  requestAnimationFrame(() => {
    tilesAsked = false;
    if (cluster) showTiles(cluster, brokers.list, cells);
  });
}

async function begin() {
  const { head, cells: bytes } = await snapshot();
  byId("login").hidden = true;
  byId("panels").hidden = false;
  seen = head.seq;
  cluster = head.cluster;
  groups = head.groups;
  setErrorNames(head.errors);
  setText(byId("cluster-id"), cluster.cluster_id);
  document.title = `Klamm ${cluster.cluster_id}`;
  cells.load(head.topics, bytes);
  brokers.load(head.brokers);
  map.setBrokers(brokers.list);
  map.arrange();
  takeMoves(head.moves);
  showGroups(groups, cluster.groups);
  showFaults(head.faults, run);
  requests.load(head.requests);
  clock.begin(head.clock, head.now_ms);
  changed();
  requestAnimationFrame(() => performance.mark("klamm-painted"));
}

// -- the connection -------------------------------------------------------------------------------------------------

let loggedIn = null;

async function live() {
  let failures = 0;
  let needsSnapshot = true;
  for (;;) {
    try {
      if (needsSnapshot) await begin();
      needsSnapshot = false;
      connection("live", "good");
      const stop = new AbortController();
      await events(seen, (name, data) => {
        failures = 0;
        if (name === "reset") needsSnapshot = true;
        else take[name]?.(data);
        if (cells.dead > MOST_DEAD_SLOTS) {
          needsSnapshot = true;
          stop.abort();
        }
      }, (id) => { seen = id; }, stop.signal);
      connection("connecting", "warn");
      if (needsSnapshot) continue;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        await login(error.message);
        needsSnapshot = true;
        continue;
      }
      if (error.name === "AbortError") continue;
      if (!(error instanceof TypeError) && !(error instanceof Refused)) console.error(error);
      connection(error instanceof Refused ? "refused" : "no connection", "bad");
      if (error instanceof Refused) say(error.message, "bad");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]));
  }
}

function login(reason) {
  byId("panels").hidden = true;
  byId("login").hidden = false;
  connection("needs a token", "warn");
  if (loggedIn !== null) setText(byId("token-refused"), reason);
  byId("token").focus();
  return new Promise((resolve) => { loggedIn = resolve; });
}

function sendToken() {
  keepToken(byId("token").value.trim());
  byId("token").value = "";
  loggedIn?.();
}

// -- what the user does ---------------------------------------------------------------------------------------------

byId("token-send").addEventListener("click", sendToken);
byId("token").addEventListener("keydown", (event) => { if (event.key === "Enter") sendToken(); });
byId("filter").addEventListener("input", (event) => map.setFilter(event.target.value));
byId("colouring").addEventListener("change", (event) => map.setColouring(event.target.value));
byId("smaller").addEventListener("click", () => map.resize(-1));
byId("larger").addEventListener("click", () => map.resize(1));
byId("fit").addEventListener("click", () => map.resize(0));
byId("move-coordinators").addEventListener("click", () => run("coordinators have moved to other brokers", () => ask("POST", "/coordinators/rehash")));
const timeOut = () => run(`the transaction of ${byId("transactional-id").value} is aborted`,
  () => ask("POST", `/transactions/${encodeURIComponent(byId("transactional-id").value)}/time-out`));
byId("time-out").addEventListener("click", timeOut);
byId("transactional-id").addEventListener("keydown", (event) => { if (event.key === "Enter") timeOut(); });
const addRule = () => run("the rule is added", async () => {
  let rule;
  try {
    rule = JSON.parse(byId("rule").value);
  } catch (error) {
    throw new Refused(400, `this is no JSON: ${error.message}`);
  }
  await ask("POST", "/faults", rule);
  byId("rule").value = "";
});
byId("add-rule").addEventListener("click", addRule);
byId("rule").addEventListener("keydown", (event) => { if (event.key === "Enter") addRule(); });

takeTokenFromAddress();
window.klamm = { brokers, cells, map }; // for measurements and checks
live();
