// Charts with axes, drawn by uPlot: best so far, and cost by knob.
import { byId, chooser, el, fill, note, paletteColor, themeColor, tip, toggles } from "./draw.js";
import { count, digits, duration, kindName, runTime, shortText } from "./format.js";

// Between two trials there is none.
const WHOLE_STEPS = Array.from({ length: 27 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const charts = new Map();
const choices = { x: "trial", scale: "log", color: "run", knob: null };

// Several series, each with its own sorted x, as columns under one x.
export function aligned(series) {
  const xs = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const columns = series.map((one) => {
    const column = new Array(xs.length).fill(null);
    one.x.forEach((x, i) => { column[place.get(x)] = one.y[i]; });
    return column;
  });
  return [xs, ...columns];
}

export function axisStyle(extra = {}) {
  return {
    stroke: themeColor("--muted"),
    grid: { stroke: themeColor("--grid"), width: 1 },
    ticks: { stroke: themeColor("--grid"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...extra,
  };
}

// Draws a chart, or gives new data to the one that is there: zoom and focus stay.
export function plot(id, label, options, data, points) {
  const holder = byId(id);
  const shape = JSON.stringify([options.shape, holder.clientWidth, themeColor("--text")]);
  const known = charts.get(id);
  if (known && known.shape === shape) {
    known.points = points;
    known.chart.setData(data);
    holder.setAttribute("aria-label", label);
    return;
  }
  known?.chart.destroy();
  holder.replaceChildren();
  holder.setAttribute("role", "img");
  holder.setAttribute("aria-label", label);
  const width = Math.max(240, holder.clientWidth);
  const entry = { shape, points };
  entry.chart = new uPlot({
    width, height: options.height ?? 280, padding: [12, 24, 0, 0],
    legend: { show: false }, cursor: { points: { show: false }, drag: { x: true, y: true, uni: 20 } },
    scales: options.scales, axes: options.axes, series: [{}, ...options.series],
    hooks: { draw: options.draw ? [(chart) => options.draw(chart, entry)] : [] },
  }, data, holder);
  entry.chart.over.addEventListener("mousemove", (event) => hovered(entry, event));
  entry.chart.over.addEventListener("mouseleave", (event) => tip(event, null));
  charts.set(id, entry);
}

function hovered(entry, event) {
  const { chart, points } = entry;
  let nearest = null, least = 24 * 24;
  for (const point of points) {
    const x = chart.valToPos(point.x, "x") - event.offsetX;
    const y = chart.valToPos(point.y, "y") - event.offsetY;
    if (x * x + y * y < least) [nearest, least] = [point, x * x + y * y];
  }
  tip(event, nearest && nearest.tip());
}

export function resized() {
  for (const entry of charts.values()) entry.shape = "";
}

export function dots(color, size = 4) {
  return { paths: () => null, points: { show: true, size, width: 0, fill: color, stroke: color } };
}

export function groupsOf(state) {
  const { view } = state;
  if (choices.color === "device") {
    const devices = [...new Set(view.points.device)].sort((a, b) => a - b);
    return devices.map((device, i) => ({
      name: `device ${device}`, color: paletteColor(i), has: (p, at) => p.device[at] === device,
    }));
  }
  return view.runs.map((run, i) => ({
    run: run.id, name: state.runName(run.id), color: paletteColor(i), has: (p, at) => p.run[at] === run.id,
  }));
}

export function drawBest(state, redraw) {
  const { view } = state, { points } = view;
  fill(byId("best-controls"),
    toggles("Horizontal axis", [["trial", "trials"], ["time", "time"]], choices.x, (x) => { choices.x = x; redraw(); }),
    toggles("Vertical scale", [["log", "log"], ["linear", "linear"]], choices.scale, (s) => { choices.scale = s; redraw(); }),
    toggles("Colour", [["run", "by run"], ["device", "by device"]], choices.color, (c) => { choices.color = c; redraw(); }));
  const groups = groupsOf(state), series = [], data = [], hits = [];
  for (const group of groups) {
    const x = [], y = [];
    points.trial.forEach((trial, at) => {
      if (!group.has(points, at) || points.seconds[at] == null) return;
      const where = choices.x === "trial" ? trial : points.time[at];
      x.push(where); y.push(points.seconds[at] * 1e6);
      hits.push({ x: where, y: points.seconds[at] * 1e6, tip: () => state.describe(at) });
    });
    data.push({ x, y });
    series.push({ ...dots(`${group.color}88`, 4) });
  }
  for (const best of view.best) {
    const x = [...best[choices.x]], y = best.seconds.map((s) => s * 1e6);
    const last = choices.x === "trial" ? best.last_trial : best.last_time;
    if (x.length && last > x[x.length - 1]) { x.push(last); y.push(y[y.length - 1]); }
    data.push({ x, y });
    const color = groups.find((g) => g.run === best.run)?.color ?? themeColor("--text");
    series.push({ stroke: color, width: 2, spanGaps: true, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) });
  }
  const races = raceMarks(state);
  for (const mark of races) {
    const color = groups.find((g) => g.run === mark.run)?.color ?? themeColor("--text");
    data.push({ x: [mark.x], y: [mark.y] });
    series.push({ paths: () => null, points: { show: true, size: 11, width: 2.5, fill: themeColor("--card"), stroke: color } });
    hits.push(mark);
  }
  const failed = points.trial.map((trial, at) => [choices.x === "trial" ? trial : points.time[at], points.error[at]])
    .filter(([, error]) => error);
  legend("best-legend", groups, races.length > 0, failed.length > 0);
  const shape = [choices, groups.map((g) => g.name), series.length];
  const x = choices.x === "trial" ? { label: "trial", incrs: WHOLE_STEPS } : { label: "since the run began", values: (_, ticks) => ticks.map(duration) };
  const label = bestLabel(state);
  if (!data.some((one) => one.x.length)) { empty("best-chart", "No trial has succeeded yet."); return; }
  plot("best-chart", label, {
    shape, series, scales: { x: { time: false }, y: timeScale() },
    axes: [axisStyle({ ...x, labelSize: 20, size: 40 }), axisStyle({ size: 64, values: microTicks })],
    draw: (chart, entry) => rug(chart, entry.failed),
  }, aligned(data), hits);
  charts.get("best-chart").failed = failed;
}

// Nearly as tight as the data: by powers of ten most of a chart would be empty.
function timeScale() {
  const log = choices.scale === "log";
  return { distr: log ? 3 : 1, range: (_, low, high) => (log ? [roundedTo(low / 1.1, false), roundedTo(high * 1.05, true)] : [0, high * 1.05]) };
}

// Nearly as tight as the data; logarithmic where that spans more than a few times its least, which a zero has no place in.
export function tightScale(values) {
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  if (low > 0 && high > 4 * low) return { distr: 3, range: (_, a, b) => [roundedTo(a / 1.02, false), roundedTo(b * 1.02, true)] };
  return { distr: 1, range: (_, a, b) => [Math.max(0, a - 0.06 * (b - a || b)), b + 0.06 * (b - a || b)] };
}

// 1, 2 or 5 times a power of ten, the nearest above or below.
function roundedTo(value, up) {
  const size = 10 ** Math.floor(Math.log10(value)), steps = [1, 2, 5, 10].map((one) => one * size);
  return up ? steps.find((one) => one >= value * (1 - 1e-9)) : steps.filter((one) => one <= value * (1 + 1e-9)).at(-1);
}

// The final race times the fastest trials once more: its winner, at the end of the run, under its time there.
function raceMarks(state) {
  const { view } = state, x = `last_${choices.x}`;
  return view.winners.filter((one) => one.race).map((one) => {
    const run = view.runs.find((known) => known.id === one.run), best = view.best.find((known) => known.run === one.run);
    if (!best || !isShown(view, run)) return null;
    const trial = run.best_trial ? `trial ${count(run.best_trial)}` : null;
    return { run: one.run, x: best[x], y: one.seconds * 1e6, tip: () => [`${runTime(one.seconds)} in the final race`, state.runName(one.run), trial].filter(Boolean) };
  }).filter(Boolean);
}

// Whether the filters leave the trial of a run in that it is known by.
export function isShown(view, run) {
  return view.matching === view.total || view.points.trial.some((one, at) => one === run.best_trial && view.points.run[at] === run.id);
}

export function microTicks(_, ticks) {
  return ticks.map((us) => (us == null ? "" : runTime(us * 1e-6)));
}

// Failures have no time: they stand along the lower edge.
function rug(chart, failed = []) {
  const { ctx, bbox } = chart, ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.fillStyle = themeColor("--bad");
  for (const [x] of failed) {
    const left = chart.valToPos(x, "x", true);
    if (left >= bbox.left && left <= bbox.left + bbox.width) ctx.fillRect(left, bbox.top + bbox.height - 6 * ratio, 1.2 * ratio, 6 * ratio);
  }
  ctx.restore();
}

function bestLabel(state) {
  const raced = new Set(state.view.winners.filter((one) => one.race).map((one) => one.run));
  const parts = state.view.runs.map((run) => `${state.runName(run.id)}: ${count(run.trials)} trials, best ${runTime(run.best_seconds)}${raced.has(run.id) ? " in the final race" : ""}`);
  return `Best time so far. ${parts.join("; ")}.`;
}

function legend(id, groups, raced, failed) {
  fill(byId(id), groups.map((group) => {
    const mark = el("span", { class: "swatch" });
    mark.style.background = group.color;
    return el("span", { class: "key" }, mark, group.name);
  }), raced ? el("span", { class: "key" }, el("span", { class: "swatch ring" }), "winner of the final race, with its time there") : null,
  failed ? el("span", { class: "key" }, el("span", { class: "swatch fail" }), "failed (lower edge)") : null);
}

export function empty(id, text) {
  charts.get(id)?.chart.destroy();
  charts.delete(id);
  fill(byId(id), note(text));
}

// A place beside the middle that is always the same for a trial.
export function jitter(trial) {
  const mixed = Math.imul(trial ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
  return mixed / 2 ** 32 - 0.5;
}

export function drawKnob(state, redraw) {
  const { view } = state, { points } = view;
  const names = view.knobs.map((knob) => knob.name);
  if (!names.length) { fill(byId("knob-controls")); empty("knob-chart", "These trials have no knobs."); return; }
  if (!names.includes(choices.knob)) choices.knob = Object.keys(view.importance.shares)[0] ?? names.find((_, i) => view.knobs[i].labels.length > 1) ?? names[0];
  fill(byId("knob-controls"), chooser("Knob", names.map((n) => [n, shortText(n, 40)]), choices.knob, (k) => { choices.knob = k; redraw(); }));
  const at = names.indexOf(choices.knob), labels = view.knobs[at].labels, codes = points.knobs[at];
  const groups = groupsOf(state), hits = [], least = new Map();
  const data = groups.map((group) => {
    const x = [], y = [];
    codes.forEach((code, i) => {
      if (code < 0 || points.seconds[i] == null || !group.has(points, i)) return;
      const us = points.seconds[i] * 1e6, where = code + 0.6 * jitter(points.trial[i]);
      x.push(where); y.push(us);
      least.set(code, Math.min(least.get(code) ?? Infinity, us));
      hits.push({ x: where, y: us, tip: () => state.describe(i) });
    });
    return { x, y };
  });
  const best = [...least].sort((a, b) => a[0] - b[0]);
  data.push({ x: best.map(([code]) => code), y: best.map(([, us]) => us) });
  if (!best.length) { empty("knob-chart", "No trial has succeeded yet."); return; }
  const series = groups.map((group) => dots(`${group.color}88`));
  series.push({ stroke: themeColor("--text"), width: 1.5, spanGaps: true, points: { show: true, size: 5, fill: themeColor("--text") } });
  const top = best.reduce((a, b) => (b[1] < a[1] ? b : a));
  plot("knob-chart", `Time by ${choices.knob}. The fastest value is ${labels[top[0]]} with ${digits(top[1])} microseconds, of ${labels.length} values.`, {
    shape: [choices, groups.map((g) => g.name), labels], series,
    scales: { x: { time: false, range: () => [-0.6, labels.length - 0.4] }, y: timeScale() },
    axes: [axisStyle({
      size: Math.min(96, 26 + 6 * Math.max(...labels.map((one) => one.length))), rotate: -50, space: 18, splits: () => spaced(labels.length, byId("knob-chart").clientWidth),
      values: (_, ticks) => ticks.map((i) => shortText(labels[i] ?? "", 14)),
    }), axisStyle({ size: 64, values: microTicks })],
  }, aligned(data), hits);
}

function spaced(many, width) {
  const step = Math.max(1, Math.ceil(many / Math.max(4, Math.floor(width / 26))));
  return Array.from({ length: Math.ceil(many / step) }, (_, i) => i * step);
}

export function trialTip(view, runName, at) {
  const { points } = view;
  const lines = [`trial ${points.trial[at]}: ${points.seconds[at] == null ? kindName(points.error[at]) : runTime(points.seconds[at])}`, runName(points.run[at])];
  view.knobs.forEach((knob, i) => {
    const code = points.knobs[i][at];
    if (code >= 0 && lines.length < 16) lines.push(`${shortText(knob.name, 30)} = ${shortText(knob.labels[code], 40)}`);
  });
  return lines;
}
