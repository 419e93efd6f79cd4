// Where the cells of the map are: either each topic begins a line with its name, or all topics follow each other.
// Sizes are in pixels of the device; y counts from the top of the whole map, which may be higher than the canvas.

const SIZES = [26, 22, 18, 15, 12, 10, 8, 7, 6, 5, 4, 3, 2];
const NAMED_AT_MOST = 400; // topics that get lines of their own

export class Layout {
  // `zoom` is added to the place in SIZES that fits: the whole map is visible at 0.
  constructor(topics, width, height, ratio, zoom) {
    this.topics = topics;
    this.ratio = ratio;
    this.starts = new Float64Array(topics.length); // y of a named topic's first line, or the place of its first cell
    this.cells = 0;
    for (const topic of topics) this.cells += topic.count;
    let fit = SIZES.findIndex((size) => this.try(size, width, height));
    if (fit < 0) fit = SIZES.length - 1;
    this.zoom = Math.max(0, Math.min(SIZES.length - 1, fit - zoom));
    this.set(SIZES[this.zoom], width);
  }

  get canGrow() { return this.zoom > 0; }
  get canShrink() { return this.zoom < SIZES.length - 1; }

  try(size, width, height) {
    this.set(size, width);
    return this.height <= height;
  }

  set(cssSize, width) {
    const ratio = this.ratio;
    this.size = Math.max(2, Math.round(cssSize * ratio));
    this.gap = this.size >= 5 * ratio ? Math.max(1, Math.round(ratio)) : 0;
    this.isNamed = this.topics.length <= NAMED_AT_MOST && (cssSize >= 5 || this.topics.length <= 12);
    this.isBeside = this.isNamed && width >= 560 * ratio;
    this.left = this.isBeside ? Math.round(190 * ratio) : 0;
    this.columns = Math.max(1, Math.floor((width - this.left) / this.size));
    let y = 0;
    if (this.isNamed) {
      const nameHeight = Math.round(17 * ratio);
      this.above = this.isBeside ? 0 : nameHeight;
      for (let at = 0; at < this.topics.length; at++) {
        this.starts[at] = y;
        const lines = Math.max(1, Math.ceil(this.topics[at].count / this.columns)) * this.size;
        y += (this.isBeside ? Math.max(lines, nameHeight) : lines + nameHeight) + Math.round(4 * ratio);
      }
      this.height = y;
    } else {
      let place = 0;
      for (let at = 0; at < this.topics.length; at++) {
        this.starts[at] = place;
        place += this.topics[at].count + 1;
      }
      this.height = Math.ceil(place / this.columns) * this.size;
    }
  }

  // The first topic that may be visible from y on.
  topicAt(y) {
    const wanted = this.isNamed ? y : Math.floor(y / this.size) * this.columns;
    let low = 0;
    let high = this.topics.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // The place of a cell, as [x, y] of its upper left corner.
  place(topicAt, index) {
    if (this.isNamed) {
      const line = Math.floor(index / this.columns);
      return [this.left + (index % this.columns) * this.size, this.starts[topicAt] + this.above + line * this.size];
    }
    const place = this.starts[topicAt] + index;
    return [(place % this.columns) * this.size, Math.floor(place / this.columns) * this.size];
  }

  // The cell at a point, as [place of the topic, partition]; null: there is none.
  hit(x, y) {
    if (!this.topics.length || y < 0 || y >= this.height) return null;
    const column = Math.floor((x - this.left) / this.size);
    if (column < 0 || column >= this.columns) return null;
    let at;
    let index;
    if (this.isNamed) {
      at = this.topicAt(y);
      const line = Math.floor((y - this.starts[at] - this.above) / this.size);
      if (line < 0) return null;
      index = line * this.columns + column;
    } else {
      const place = Math.floor(y / this.size) * this.columns + column;
      at = this.topicAt(y);
      while (at + 1 < this.topics.length && this.starts[at + 1] <= place) at++;
      index = place - this.starts[at];
    }
    return index >= 0 && index < this.topics[at].count ? [at, index] : null;
  }
}
