// The controller's clock: a real one goes on by itself, a manual one has buttons.

import { ask } from "./api.js";
import { byId, h, setText } from "./dom.js";

const STEPS = [["+1 s", 1000], ["+10 s", 10_000], ["+1 min", 60_000], ["+5 min", 300_000]];

export class Clock {
  constructor(run) {
    this.run = run;
    this.isManual = null;
    this.ahead = 0;
    setInterval(() => this.tick(), 1000);
  }

  begin(clock, nowMs) {
    this.ahead = nowMs - Date.now();
    this.show(clock);
  }

  show(clock) {
    const isManual = clock.clock === "manual";
    if (isManual !== this.isManual) {
      this.isManual = isManual;
      this.time = h("time", { class: "mono" });
      const kind = h("span", { class: "quiet" }, isManual ? "manual clock" : "real clock");
      const buttons = isManual ? STEPS.map(([label, ms]) => h("button", { "aria-label": `Let ${label.slice(1)} pass`,
        onclick: () => this.run(`${label.slice(1)} passed`, () => ask("POST", "/clock/advance", { ms })) }, label)) : [];
      byId("clock").replaceChildren(kind, this.time, ...buttons);
    }
    this.nowMs = clock.now_ms;
    this.tick();
  }

  tick() {
    if (!this.time) return;
    const now = new Date(this.isManual ? this.nowMs : Date.now() + this.ahead);
    setText(this.time, now.toISOString().slice(0, this.isManual ? 23 : 19).replace("T", " "));
  }
}
