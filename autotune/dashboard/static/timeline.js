// What compiled, ran and waited when: a lane for each builder and device.
import { byId, canvasIn, el, fill, note, themeColor, tip } from "./draw.js";
import { count, duration, kindName, runTime } from "./format.js";

const LANE = 22;
const timelineHits = { bars: [] };

export function drawTimeline(state, ask) {
  const { timeline } = state.view, holder = byId("timeline-chart"), controls = byId("timeline-controls");
  if (!timeline.bars.length) {
    fill(controls);
    fill(holder, note("No trial yet."));
    return;
  }
  const from = Math.min(...timeline.bars.map((bar) => bar.from)), to = Math.max(...timeline.bars.map((bar) => bar.to));
  const shown = new Set(timeline.bars.map((bar) => `${bar.run} ${bar.trial}`)).size, first = timeline.until - shown + 1;
  const step = (until) => ask({ timeline_end: until });
  fill(controls,
    state.live && el("button", { type: "button", disabled: first <= 1, onclick: () => step(Math.max(shown, timeline.until - shown)) }, "Earlier"),
    state.live && el("button", { type: "button", disabled: timeline.until >= timeline.total, onclick: () => step(timeline.until + shown) }, "Later"),
    state.live && el("button", { type: "button", disabled: timeline.until >= timeline.total, onclick: () => step(null) }, "Latest"),
    el("span", { class: "note" }, `Trials ${count(first)} to ${count(timeline.until)} of ${count(timeline.total)}${waits(timeline.idle)}`));
  holder.querySelector(".note")?.remove();
  const lanes = laneOrder(timeline.lanes), height = LANE * lanes.length + 46;
  const busy = timeline.lanes.map((_, lane) => timeline.bars.filter((b) => b.lane === lane).reduce((sum, b) => sum + b.to - b.from, 0) / (to - from || 1));
  const label = `Timeline from ${duration(from)} to ${duration(to)}. ${lanes.map((lane) => `${timeline.lanes[lane]} busy ${Math.round(100 * Math.min(1, busy[lane]))}%`).join(", ")}.`;
  const { canvas, context, width } = canvasIn(holder, height, label);
  const left = 124, right = width - 10, x = (t) => left + ((right - left) * (t - from)) / (to - from || 1);
  timelineHits.bars = [];
  lanes.forEach((lane, row) => {
    context.fillStyle = themeColor("--text");
    context.fillText(`${timeline.lanes[lane]}  ${Math.round(100 * Math.min(1, busy[lane]))}%`, 4, row * LANE + 15);
    context.fillStyle = themeColor("--grid");
    context.fillRect(left, row * LANE + LANE - 2, right - left, 1);
  });
  for (const bar of timeline.bars) {
    const row = lanes.indexOf(bar.lane), begin = x(bar.from), wide = Math.max(1, x(bar.to) - begin - 0.5);
    context.fillStyle = barColor(bar);
    context.fillRect(begin, row * LANE + 3, wide, LANE - 7);
    timelineHits.bars.push([begin, wide, row, bar]);
  }
  ticks(context, { from, to, x, y: LANE * lanes.length + 18, left, right });
  canvas.onmousemove = (event) => {
    const row = Math.floor(event.offsetY / LANE);
    const hit = timelineHits.bars.find(([begin, wide, at]) => at === row && event.offsetX >= begin - 1 && event.offsetX <= begin + wide + 1);
    tip(event, hit && barTip(state, hit[3]));
  };
  canvas.onmouseleave = (event) => tip(event, null);
}

function waits(idle) {
  if (idle?.builder == null) return "; this log does not say when builds began: a bar is all that a trial took";
  return `; waited for a builder ${duration(idle.builder)}${idle.device == null ? "" : `, for a device ${duration(idle.device)}`} (median)`;
}

function laneOrder(names) {
  const rank = (name) => (name.startsWith("device") ? 1 : 0);
  return names.map((_, i) => i).sort((a, b) => rank(names[a]) - rank(names[b]) || names[a].localeCompare(names[b], undefined, { numeric: true }));
}

function barColor(bar) {
  if (bar.error && (bar.what !== "build" || bar.error <= 3 || bar.error === 6)) return themeColor("--bad");
  return themeColor(bar.what === "build" ? "--run0" : bar.what === "run" ? "--run2" : "--run1");
}

function barTip(state, bar) {
  const outcome = bar.error ? kindName(bar.error) : runTime(bar.seconds);
  const what = { build: "built", run: "ran", trial: "took" }[bar.what];
  return [`trial ${bar.trial}: ${outcome}`, state.runName(bar.run), `${what} ${duration(bar.to - bar.from)}`, bar.waited ? `waited ${duration(bar.waited)} before` : null].filter(Boolean);
}

function ticks(context, { from, to, x, y, left, right }) {
  const rough = (to - from) / Math.max(2, (right - left) / 110), size = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((k) => k * size).find((one) => one >= rough) ?? size;
  context.fillStyle = themeColor("--muted");
  for (let t = Math.ceil(from / step) * step; t <= to && step > 0; t += step) context.fillText(duration(Number(t.toPrecision(6))), x(t), y);
}
