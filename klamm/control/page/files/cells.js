// The topics and partitions of the cluster, in typed arrays: a topic has consecutive slots in them.

export const NO_LEADER = 1;
export const UNDER_REPLICATED = 2;
export const UNDER_MIN_ISR = 4;
export const MOVING = 8;
export const NOT_PREFERRED = 16;
export const RECOVERING = 32;
const CELL_BYTES = 16;

export class Cells {
  constructor() {
    this.clear();
  }

  clear() {
    this.topics = []; // in the order in which the server has them
    this.byRow = new Map();
    this.used = 0;
    this.leader = this.state = this.isr = this.replicas = this.placeholders = null; // what was in the slots is forgotten
    this.make(1024);
    this.offline = this.underReplicated = this.underMinIsr = 0;
    this.dead = 0; // slots that no topic has any more
    this.version = 0; // grows when topics or numbers of partitions change
  }

  make(capacity) {
    const grown = (old, kind) => {
      const made = new kind(capacity);
      if (old) made.set(old.subarray(0, Math.min(old.length, capacity)));
      return made;
    };
    this.leader = grown(this.leader, Int32Array);
    this.state = grown(this.state, Uint8Array);
    this.isr = grown(this.isr, Uint8Array);
    this.replicas = grown(this.replicas, Uint8Array);
    this.placeholders = grown(this.placeholders, Uint8Array);
    this.capacity = capacity;
  }

  load(topics, bytes) {
    this.clear();
    for (const [row, name] of topics) this.addTopic(row, name);
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    for (let at = 0; at < words.length; at += 4) {
      const topic = this.byRow.get(words[at]);
      if (topic !== undefined && words[at + 1] >= topic.count) topic.count = words[at + 1] + 1;
    }
    for (const topic of this.topics) {
      topic.first = this.used;
      topic.room = topic.count;
      this.used += topic.count;
    }
    this.make(Math.max(1024, this.used));
    this.write(bytes);
    this.version++;
  }

  addTopic(row, name) {
    if (this.byRow.has(row)) return;
    const topic = { row, name, lower: name.toLowerCase(), first: 0, count: 0, room: 0 };
    this.topics.push(topic);
    this.byRow.set(row, topic);
    this.version++;
  }

  removeTopics(rows) {
    for (const row of rows) {
      const topic = this.byRow.get(row);
      if (topic === undefined) continue;
      for (let slot = topic.first; slot < topic.first + topic.count; slot++) this.count(this.state[slot], -1);
      this.byRow.delete(row);
      this.dead += topic.room;
    }
    this.topics = this.topics.filter((topic) => this.byRow.has(topic.row));
    this.version++;
  }

  // Changes are written over what there is; `bytes` are aligned to 4.
  write(bytes) {
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    const signed = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    for (let at = 0, byte = 12; at < words.length; at += 4, byte += CELL_BYTES) {
      const topic = this.byRow.get(words[at]);
      if (topic === undefined) continue;
      const index = words[at + 1];
      if (index >= topic.count) this.grow(topic, index + 1);
      const slot = topic.first + index;
      const state = bytes[byte];
      if (state !== this.state[slot]) {
        this.count(this.state[slot], -1);
        this.count(state, 1);
        this.state[slot] = state;
      }
      this.leader[slot] = signed[at + 2];
      this.isr[slot] = bytes[byte + 1];
      this.replicas[slot] = bytes[byte + 2];
      this.placeholders[slot] = bytes[byte + 3];
    }
  }

  count(state, by) {
    if (state & NO_LEADER) this.offline += by;
    if (state & UNDER_REPLICATED) this.underReplicated += by;
    if (state & UNDER_MIN_ISR) this.underMinIsr += by;
  }

  grow(topic, count) {
    if (count > topic.room) {
      const room = Math.max(count, 2 * topic.room);
      const first = topic.first + topic.room === this.used && topic.room > 0 ? topic.first : this.used;
      const needed = first + room;
      if (needed > this.capacity) this.make(Math.max(needed, 2 * this.capacity));
      if (first !== topic.first && topic.count) {
        for (const array of [this.leader, this.state, this.isr, this.replicas, this.placeholders]) {
          array.copyWithin(first, topic.first, topic.first + topic.count);
          array.fill(0, topic.first, topic.first + topic.count);
        }
      }
      topic.first = first;
      topic.room = room;
      this.used = needed;
    }
    topic.count = count;
    this.version++;
  }
}

// The bytes of an event, which come as base64.
export function decoded(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < characters.length; at++) bytes[at] = characters.charCodeAt(at);
  return bytes;
}
