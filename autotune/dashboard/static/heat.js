// A heat map of two knobs: the best, or the middle, of the times of each pair of values.
import { byId, canvasIn, chooser, fill, heatColor, note, themeColor, tip } from "./draw.js";
import { runTime, shortText } from "./format.js";

const heatChoice = { x: null, y: null, what: "best" };

export function drawHeat(state, redraw) {
  const { view } = state, holder = byId("heat-chart");
  const varied = view.knobs.map((knob, at) => ({ ...knob, at })).filter((knob) => knob.labels.length > 1);
  if (varied.length < 2) {
    fill(byId("heat-controls"));
    fill(holder, note("Needs two knobs with different choices."));
    return;
  }
  const ranked = [...Object.keys(view.importance.shares), ...varied.map((k) => k.name)].filter((n) => varied.some((k) => k.name === n));
  if (!varied.some((k) => k.name === heatChoice.x)) heatChoice.x = ranked[0];
  if (!varied.some((k) => k.name === heatChoice.y) || heatChoice.y === heatChoice.x) heatChoice.y = ranked.find((n) => n !== heatChoice.x);
  const names = varied.map((k) => [k.name, shortText(k.name, 40)]);
  fill(byId("heat-controls"),
    chooser("Across", names, heatChoice.x, (n) => { heatChoice.x = n; redraw(); }),
    chooser("Up", names, heatChoice.y, (n) => { heatChoice.y = n; redraw(); }),
    chooser("Shown", [["best", "fastest"], ["middle", "median"], ["failed", "share that failed"]], heatChoice.what, (w) => { heatChoice.what = w; redraw(); }));
  const x = varied.find((k) => k.name === heatChoice.x), y = varied.find((k) => k.name === heatChoice.y);
  paintHeat(state, holder, x, y);
}

function cellsOf(points, x, y) {
  const cells = new Map();
  points.trial.forEach((_, at) => {
    const i = points.knobs[x.at][at], j = points.knobs[y.at][at];
    if (i < 0 || j < 0) return;
    const key = i * y.labels.length + j;
    if (!cells.has(key)) cells.set(key, { i, j, times: [], failed: 0, best: null });
    const cell = cells.get(key), seconds = points.seconds[at];
    if (seconds == null) { cell.failed += 1; return; }
    cell.times.push(seconds);
    if (cell.best == null || seconds < points.seconds[cell.best]) cell.best = at;
  });
  return [...cells.values()];
}

function worth(cell) {
  if (heatChoice.what === "failed") return cell.failed / (cell.failed + cell.times.length);
  if (!cell.times.length) return null;
  const sorted = [...cell.times].sort((a, b) => a - b);
  return heatChoice.what === "best" ? sorted[0] : sorted[Math.floor(sorted.length / 2)];
}

function paintHeat(state, holder, x, y) {
  holder.querySelector(".note")?.remove();
  const cells = cellsOf(state.view.points, x, y).map((cell) => ({ ...cell, worth: worth(cell) }));
  const known = cells.map((c) => c.worth).filter((w) => w != null);
  const scale = heatChoice.what === "failed" ? (w) => w : Math.log;
  const low = Math.min(...known.map(scale)), high = Math.max(...known.map(scale));
  const shown = (w) => (heatChoice.what === "failed" ? `${Math.round(100 * w)}% failed` : runTime(w));
  const best = cells.filter((c) => c.worth != null).sort((a, b) => a.worth - b.worth)[0];
  const label = best ? `Heat map of ${x.name} and ${y.name}: least at ${x.labels[best.i]}, ${y.labels[best.j]} with ${shown(best.worth)}.` : "Heat map without values.";
  const height = Math.min(520, Math.max(240, 90 + 22 * y.labels.length));
  const { canvas, context, width } = canvasIn(holder, height, label);
  const left = 96, top = 8, wide = (width - left - 8) / x.labels.length, tall = (height - top - 80) / y.labels.length;
  for (const cell of cells) {
    context.fillStyle = cell.worth == null ? themeColor("--bad-soft") : heatColor((scale(cell.worth) - low) / (high - low || 1));
    context.fillRect(left + cell.i * wide, top + (y.labels.length - 1 - cell.j) * tall, Math.max(1, wide - 1), Math.max(1, tall - 1));
  }
  heatLabels(context, x, y, { left, top, wide, tall, height });
  canvas.onmousemove = (event) => {
    const i = Math.floor((event.offsetX - left) / wide), j = y.labels.length - 1 - Math.floor((event.offsetY - top) / tall);
    const cell = cells.find((c) => c.i === i && c.j === j);
    tip(event, cell && [cell.worth == null ? "all failed" : shown(cell.worth), `${x.name} = ${x.labels[i]}`, `${y.name} = ${y.labels[j]}`, `${cell.times.length} ok, ${cell.failed} failed`]);
  };
  canvas.onmouseleave = (event) => tip(event, null);
}

function heatLabels(context, x, y, { left, top, wide, tall, height }) {
  context.fillStyle = themeColor("--text");
  context.textAlign = "right";
  const every = Math.ceil(14 / tall), across = Math.ceil(16 / wide);
  y.labels.forEach((label, j) => {
    if (j % every === 0) context.fillText(shortText(label, 14), left - 6, top + (y.labels.length - 0.5 - j) * tall + 4);
  });
  x.labels.forEach((label, i) => {
    if (i % across) return;
    context.save();
    context.translate(left + (i + 0.5) * wide + 4, height - 68);
    context.rotate(-Math.PI / 3.2);
    context.fillText(shortText(label, 12), 0, 0);
    context.restore();
  });
  context.textAlign = "left";
}
