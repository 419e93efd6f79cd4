// The map of all partitions, on a canvas that is as large as what is visible. Cells are written as pixels, so that a
// hundred thousand of them take some milliseconds; names and outlines are drawn over them.

import { MOVING, NO_LEADER, NOT_PREFERRED, UNDER_MIN_ISR, UNDER_REPLICATED } from "./cells.js";
import { byId, h, number } from "./dom.js";
import { Layout } from "./layout.js";

const STATES = [
  ["fine", "in sync", "--cell-fine"],
  ["other", "led by another than the preferred leader", "--cell-other"],
  ["moving", "being moved", "--cell-moving"],
  ["placeholder", "placeholders", "--cell-placeholder"],
  ["under", "under-replicated", "--cell-under"],
  ["minimum", "below its minimum ISR", "--cell-minimum"],
  ["offline", "no leader", "--cell-offline"],
];
const ISR_STEPS = 5;
const MOST_TOUCHED = 4096; // cells up to which they are drawn alone
const [LEAST_HEIGHT, MOST_HEIGHT, PART_OF_WINDOW] = [180, 460, 0.46]; // in CSS pixels

export class HeatMap {
  constructor(cells, onOpen) {
    this.store = cells;
    this.onOpen = onOpen;
    this.box = byId("map");
    this.space = byId("map-space");
    this.canvas = byId("map-canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.colouring = "state";
    this.filter = "";
    this.zoom = 0;
    this.cursor = null; // [topic, partition]
    this.moves = new Map();
    this.brokers = [];
    this.drawn = 0; // for measurements
    this.drawnWhole = 0;
    this.isAsked = false;
    this.isWhole = true; // whether the next frame draws all cells
    this.touched = []; // the cells that it draws otherwise, as [topic, partition]
    this.named = []; // the topics of the last whole frame, as [place, y]
    this.layout = null;
    this.readColours();
    this.listen();
  }

  listen() {
    let width = 0;
    new ResizeObserver(() => {
      if (width !== this.box.clientWidth) this.arrange();
      width = this.box.clientWidth;
    }).observe(this.box);
    window.addEventListener("resize", () => this.arrange());
    this.box.addEventListener("scroll", () => this.ask());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.readColours();
      this.ask();
    });
    this.canvas.addEventListener("pointermove", (event) => this.tell(this.at(event)));
    this.canvas.addEventListener("pointerleave", () => this.tell(this.cursor));
    this.canvas.addEventListener("click", (event) => this.open(this.at(event)));
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  at(event) {
    const ratio = this.layout.ratio;
    const found = this.layout.hit(event.offsetX * ratio, event.offsetY * ratio + this.top());
    return found && [this.layout.topics[found[0]], found[1]];
  }

  top() {
    return Math.round(this.box.scrollTop * (this.layout?.ratio ?? 1));
  }

  // -- layout -------------------------------------------------------------------------------------------------------

  // Topics, their partitions, the filter or the size have changed.
  arrange() {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.floor(this.box.clientWidth * ratio);
    const most = Math.floor(Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, PART_OF_WINDOW * window.innerHeight)));
    if (!width) return;
    const topics = this.filter
      ? this.store.topics.filter((topic) => topic.lower.includes(this.filter))
      : this.store.topics;
    this.places = null;
    this.layout = new Layout(topics, width, most * ratio, ratio, this.zoom);
    const height = Math.floor(Math.max(40, Math.min(most, Math.ceil(this.layout.height / ratio))) * ratio);
    this.box.style.height = `${height / ratio}px`;
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.canvas.style.width = `${width / ratio}px`;
      this.canvas.style.height = `${height / ratio}px`;
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.space.style.height = `${Math.max(height, this.layout.height) / ratio}px`;
    this.version = this.store.version;
    this.ask();
  }

  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.box.scrollTop = 0;
    this.arrange();
  }

  resize(by) {
    const can = by > 0 ? this.layout?.canGrow : this.layout?.canShrink;
    if (by === 0) this.zoom = 0;
    else if (can) this.zoom += by;
    this.arrange();
  }

  // Some cells have changed: pairs of a topic's row and a partition, in every fourth word.
  touch(words) {
    for (let at = 0; at < words.length && !this.isWhole; at += 4) {
      const topic = this.store.byRow.get(words[at]);
      if (topic !== undefined) this.touched.push([topic, words[at + 1]]);
      this.isWhole = this.touched.length > MOST_TOUCHED;
    }
    this.ask(this.isWhole);
  }

  // Draws with the next frame.
  ask(isWhole = true) {
    this.isWhole ||= isWhole;
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      if (this.version !== this.store.version) this.arrange();
      if (this.layout) this.draw();
    });
  }

  // -- colours ------------------------------------------------------------------------------------------------------

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const named = (name) => packed(style.getPropertyValue(name).trim());
    this.background = named("--surface");
    this.stateColours = STATES.map(([, , name]) => named(name));
    this.text = style.getPropertyValue("--text").trim();
    this.outline = style.getPropertyValue("--text").trim();
    this.font = style.getPropertyValue("--font").trim() || "sans-serif";
    const lightness = Number(style.getPropertyValue("--leader-lightness"));
    this.leaderColours = Array.from({ length: 24 }, (_, at) => hued((at * 137.5 + 160) % 360, 0.38, lightness));
    const [low, high] = [named("--cell-offline"), named("--cell-fine")];
    this.isrColours = Array.from({ length: ISR_STEPS + 1 }, (_, at) => mixed(low, high, at / ISR_STEPS));
    // By the eight bits of the state, without placeholders, which are looked at first.
    this.byState = Uint32Array.from({ length: 256 }, (_, state) => this.stateColours[stateOf(state, 0)]);
    this.showLegend();
  }

  setBrokers(brokers) {
    this.brokers = brokers;
    this.placeOfBroker = new Map(brokers.map((broker, at) => [broker.id, at]));
    if (this.colouring === "leader") this.showLegend();
  }

  setColouring(name) {
    this.colouring = name;
    this.showLegend();
    this.ask();
  }

  leaderColour(leader) {
    if (leader < 0) return this.stateColours[6];
    return this.leaderColours[(this.placeOfBroker?.get(leader) ?? leader) % this.leaderColours.length];
  }

  showLegend() {
    let shown;
    if (this.colouring === "state") shown = STATES.map(([, text], at) => [text, this.stateColours[at]]);
    else if (this.colouring === "isr") shown = [["no replica in sync", this.isrColours[0]], ["half", this.isrColours[3]], ["all", this.isrColours[ISR_STEPS]]];
    else {
      shown = this.brokers.slice(0, 12).map((broker) => [`broker ${broker.id}`, this.leaderColour(broker.id)]);
      if (this.brokers.length > 12) shown.push([`and ${this.brokers.length - 12} more`, null]);
    }
    byId("legend").replaceChildren(...shown.map(([text, colour]) => {
      const swatch = h("span", { class: "swatch" });
      if (colour !== null) swatch.style.background = css(colour);
      return h("li", {}, colour === null ? null : swatch, text);
    }));
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  draw() {
    const top = this.top();
    if (this.isWhole) this.drawAll(top);
    else for (const [topic, index] of this.touched) this.drawAlone(topic, index, top);
    this.isWhole = false;
    this.touched = [];
    this.context.putImageData(this.image, 0, 0);
    if (this.layout.isNamed) this.drawNames(this.named);
    this.drawCursor(top);
    this.drawn++;
  }

  drawAll(top) {
    const { layout, store, pixels, canvas } = this;
    pixels.fill(this.background);
    const bottom = top + canvas.height;
    this.named = [];
    for (let at = layout.topicAt(top); at < layout.topics.length; at++) {
      const topic = layout.topics[at];
      const [, y] = layout.place(at, 0);
      if (y - layout.above >= bottom && layout.isNamed) break;
      if (y >= bottom) break;
      this.named.push([at, y - top]);
      this.drawTopic(at, topic, store, top, bottom);
    }
    this.drawnWhole++;
  }

  drawAlone(topic, index, top) {
    const at = this.placeOf(topic);
    if (at === undefined || index >= topic.count) return;
    const [x, y] = this.layout.place(at, index);
    this.drawCell(x, y, this.colour(this.store, topic.first + index), top, top + this.canvas.height);
  }

  drawCell(x, y, colour, top, bottom) {
    const { pixels } = this;
    const side = this.layout.size - this.layout.gap;
    const width = this.canvas.width;
    const rowsFrom = Math.max(0, top - y);
    const rowsTo = Math.min(side, bottom - y);
    for (let row = rowsFrom; row < rowsTo; row++) {
      const start = (y - top + row) * width + x;
      if (side <= 4) for (let pixel = start; pixel < start + side; pixel++) pixels[pixel] = colour;
      else pixels.fill(colour, start, start + side);
    }
  }

  drawTopic(at, topic, store, top, bottom) {
    const { layout } = this;
    const { columns, size } = layout;
    const [, first] = layout.place(at, 0);
    // Lines above and below of what is visible are skipped.
    const skipped = Math.max(0, Math.floor((top - first) / size) - 1) * columns;
    let from = Math.max(0, skipped - (layout.isNamed ? 0 : layout.starts[at] % columns));
    let [x, y] = layout.place(at, from);
    const end = layout.left + columns * size;
    for (; from < topic.count && y < bottom; from++) {
      this.drawCell(x, y, this.colour(store, topic.first + from), top, bottom);
      x += size;
      if (x + size > end) {
        x = layout.left;
        y += size;
      }
    }
  }

  colour(store, slot) {
    if (this.colouring === "leader") return this.leaderColour(store.leader[slot]);
    if (this.colouring === "isr") {
      const replicas = store.replicas[slot] || 1;
      return this.isrColours[Math.min(ISR_STEPS, Math.round((ISR_STEPS * store.isr[slot]) / replicas))];
    }
    const placeholders = store.placeholders[slot];
    return placeholders ? this.stateColours[stateOf(store.state[slot], placeholders)] : this.byState[store.state[slot]];
  }

  drawNames(named) {
    const { context, layout } = this;
    const ratio = layout.ratio;
    context.font = `${12 * ratio}px ${this.font}`;
    context.textBaseline = "middle";
    context.fillStyle = this.text;
    const room = (layout.isBeside ? layout.left : this.canvas.width) - 12 * ratio;
    for (const [at, y] of named) {
      const middle = layout.isBeside ? y + (layout.size < 15 * ratio ? 15 * ratio : layout.size - layout.gap) / 2 : y - 8 * ratio;
      context.fillText(this.fitted(layout.topics[at].name, room), 0, middle);
    }
  }

  fitted(text, room) {
    if (this.context.measureText(text).width <= room) return text;
    let length = Math.min(text.length, Math.ceil(room / (5 * this.layout.ratio)));
    while (length > 1 && this.context.measureText(`${text.slice(0, length)}…`).width > room) length--;
    return `${text.slice(0, length)}…`;
  }

  drawCursor(top) {
    if (!this.cursor) return;
    const at = this.placeOf(this.cursor[0]);
    if (at === undefined || this.cursor[1] >= this.cursor[0].count) return;
    const [x, y] = this.layout.place(at, this.cursor[1]);
    const { size, ratio } = this.layout;
    this.context.strokeStyle = this.outline;
    this.context.lineWidth = 2 * ratio;
    this.context.strokeRect(x - ratio, y - top - ratio, size - this.layout.gap + 2 * ratio, size - this.layout.gap + 2 * ratio);
  }

  placeOf(topic) {
    this.places ??= new Map(this.layout.topics.map((one, at) => [one, at]));
    return this.places.get(topic);
  }

  // -- pointer and keys ---------------------------------------------------------------------------------------------

  describe([topic, index]) {
    const { store } = this;
    const slot = topic.first + index;
    const leader = store.leader[slot];
    const words = [
      `${topic.name}-${index}`,
      leader < 0 ? "no leader" : `leader ${leader}`,
      `ISR ${store.isr[slot]} of ${store.replicas[slot]}`,
    ];
    if (store.placeholders[slot]) words.push(`${store.placeholders[slot]} placeholders`);
    const state = stateOf(store.state[slot], store.placeholders[slot]);
    if (state) words.push(STATES[state][1]);
    const move = this.moves.get(`${topic.row}-${index}`);
    if (move) words.push(`${number(move.has)} of ${number(move.end)} messages moved`);
    return words.join(" · ");
  }

  tell(found) {
    const text = found && found[1] < found[0].count ? this.describe(found) : "";
    if (byId("map-at").textContent !== text) byId("map-at").textContent = text;
  }

  open(found) {
    if (!found) return;
    this.cursor = found;
    this.ask();
    this.tell(found);
    this.onOpen(found[0], found[1]);
  }

  key(event) {
    const topics = this.layout?.topics ?? [];
    if (!topics.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      this.onOpen(null);
      return;
    }
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open(this.cursor ?? this.nearest(0, 0));
      return;
    }
    const columns = this.layout.columns;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    let at = this.cursor ? (this.placeOf(this.cursor[0]) ?? 0) : 0;
    let index = this.cursor ? this.cursor[1] : 0;
    if (event.key in steps) {
      if (this.cursor) index += steps[event.key];
    } else if (event.key === "Home") index = 0;
    else if (event.key === "End") index = topics[at].count - 1;
    else if (event.key === "PageDown") [at, index] = [at + 1, 0];
    else if (event.key === "PageUp") [at, index] = [at - 1, 0];
    else return;
    event.preventDefault();
    this.cursor = this.nearest(at, index);
    this.show(this.cursor);
    this.tell(this.cursor);
    this.ask();
  }

  // The cell of a topic by its place; before the first or behind the last partition it is one of the next topic.
  nearest(at, index) {
    const topics = this.layout.topics;
    if (at < 0) [at, index] = [0, 0];
    if (at >= topics.length) [at, index] = [topics.length - 1, Infinity];
    if (index < 0) {
      if (at > 0) return this.nearest(at - 1, topics[at - 1].count - 1);
      index = 0;
    }
    if (index >= topics[at].count) {
      if (at + 1 < topics.length && index !== Infinity) return this.nearest(at + 1, 0);
      index = Math.max(0, topics[at].count - 1);
    }
    return [topics[at], index];
  }

  show([topic, index]) {
    const ratio = this.layout.ratio;
    const y = this.layout.place(this.placeOf(topic), index)[1] / ratio;
    const height = this.box.clientHeight;
    if (y < this.box.scrollTop + 20) this.box.scrollTop = y - 20;
    else if (y > this.box.scrollTop + height - 30) this.box.scrollTop = y - height + 30;
  }
}

// The place in STATES: the worst of what is so.
function stateOf(state, placeholders) {
  if (state & NO_LEADER) return 6;
  if (state & UNDER_MIN_ISR) return 5;
  if (state & UNDER_REPLICATED) return 4;
  if (placeholders) return 3;
  if (state & MOVING) return 2;
  return state & NOT_PREFERRED ? 1 : 0;
}

// Colours as the canvas has them in memory: alpha, blue, green, red.
function packed(text) {
  const value = parseInt(text.slice(1), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

function css(colour) {
  return `rgb(${colour & 0xff} ${(colour >> 8) & 0xff} ${(colour >> 16) & 0xff})`;
}

function mixed(low, high, part) {
  const channel = (shift) => Math.round(((low >> shift) & 0xff) * (1 - part) + ((high >> shift) & 0xff) * part) << shift;
  return (0xff000000 | channel(0) | channel(8) | channel(16)) >>> 0;
}

function hued(hue, saturation, lightness) {
  const reach = saturation * Math.min(lightness, 1 - lightness);
  const channel = (from) => {
    const at = (from + hue / 30) % 12;
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return (0xff000000 | (channel(4) << 16) | (channel(8) << 8) | channel(0)) >>> 0;
}
