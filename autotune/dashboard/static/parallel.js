// Parallel coordinates: an axis a knob, a line a trial, fast ones on top.
import { byId, canvasIn, el, fill, heatColor, note, themeColor, tip } from "./draw.js";
import { runTime, shortText } from "./format.js";

const MOST_AXES = 10;
const parallelState = { hits: [] };

export function drawParallel(state) {
  const holder = byId("parallel-chart"), { view } = state, { points } = view;
  const axes = parallelAxes(view);
  const good = points.seconds.map((s, i) => [s, i]).filter(([s]) => s != null).sort((a, b) => b[0] - a[0]);
  if (axes.length < 1 || good.length < 2) {
    fill(holder, note("Needs two trials that succeeded, with different choices."));
    return;
  }
  holder.querySelector(".note")?.remove();
  const label = `Parallel coordinates of ${good.length} trials over ${axes.map((a) => a.name).join(", ")} and the time. The brightest lines are the fastest twenty-fifth.`;
  const { canvas, context, width, height } = canvasIn(holder, 320, label);
  const left = 24, right = width - 70, top = 34, bottom = height - 16;
  const x = (i) => left + ((right - left) * i) / axes.length;
  const logs = good.map(([s]) => Math.log(s));
  const high = Math.max(...logs), low = Math.min(...logs), span = high - low || 1;
  const place = (i, code) => bottom - ((bottom - top) * (code + 0.5)) / axes[i].labels.length;
  const cost = (s) => bottom - ((bottom - top) * (Math.log(s) - low)) / span;
  parallelState.hits = [];
  context.lineWidth = 1;
  good.forEach(([seconds, at], rank) => {
    const share = (Math.log(seconds) - low) / span, fast = rank >= good.length - Math.max(3, good.length / 25);
    context.strokeStyle = heatColor(fast ? share : Math.max(share, 0.35));
    context.globalAlpha = fast ? 0.95 : 0.16;
    context.lineWidth = fast ? 1.6 : 1;
    context.beginPath();
    axes.forEach((axis, i) => {
      const code = points.knobs[axis.at][at];
      const y = code < 0 ? bottom + 6 : place(i, code);
      if (i) context.lineTo(x(i), y); else context.moveTo(x(i), y);
    });
    context.lineTo(right, cost(seconds));
    context.stroke();
    parallelState.hits.push([cost(seconds), at]);
  });
  context.globalAlpha = 1;
  parallelScales(context, axes, { x, right, top, bottom, place });
  context.fillText(runTime(Math.exp(high)), right + 6, top + 4);
  context.fillText(runTime(Math.exp(low)), right + 6, bottom + 4);
  canvas.onmousemove = (event) => {
    const near = parallelState.hits.map(([y, at]) => [Math.abs(y - event.offsetY), at]).sort((a, b) => a[0] - b[0])[0];
    tip(event, event.offsetX > right - 40 && near && near[0] < 12 ? state.describe(near[1]) : null);
  };
  canvas.onmouseleave = (event) => tip(event, null);
}

// The knobs that matter most, among those with more than one value.
function parallelAxes(view) {
  const shares = view.importance.shares;
  const varied = view.knobs.map((knob, at) => ({ ...knob, at })).filter((knob) => knob.labels.length > 1);
  varied.sort((a, b) => (shares[b.name] ?? 0) - (shares[a.name] ?? 0));
  return varied.slice(0, MOST_AXES);
}

function parallelScales(context, axes, at) {
  context.strokeStyle = themeColor("--muted");
  context.fillStyle = themeColor("--text");
  const room = Math.max(6, Math.floor((at.right - at.x(0)) / axes.length / 6.5));
  axes.forEach((axis, i) => {
    line(context, at.x(i), at.top, at.bottom);
    context.fillText(shortText(axis.name, room), at.x(i) - 6, i % 2 ? at.top - 10 : at.top - 22);
    const step = Math.ceil(axis.labels.length / 8);
    for (let code = 0; code < axis.labels.length; code += step) {
      const label = shortText(axis.labels[code], room - 1), y = at.place(i, code);
      context.fillStyle = themeColor("--card");
      context.globalAlpha = 0.8;
      context.fillRect(at.x(i) + 2, y - 7, context.measureText(label).width + 4, 14);
      context.globalAlpha = 1;
      context.fillStyle = themeColor("--text");
      context.fillText(label, at.x(i) + 4, y + 4);
    }
  });
  line(context, at.right, at.top, at.bottom);
  context.fillText("time", at.right + 6, at.top - 12);
}

function line(context, x, top, bottom) {
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  context.stroke();
}

export function drawImportance(state) {
  const { importance } = state.view, shares = Object.entries(importance.shares).filter(([, share]) => share > 0);
  const holder = byId("importance-chart");
  if (!shares.length) {
    fill(holder, note(importance.trials >= 24 ? "The knobs do not explain these times." : "Computed from 24 successful trials on."));
    return;
  }
  const rows = shares.slice(0, 16).map(([name, share]) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${Math.max(1, (100 * share) / shares[0][1])}%`;
    return el("tr", {}, el("th", { scope: "row", title: name }, shortText(name, 32)),
      el("td", { class: "wide" }, bar), el("td", { class: "number" }, `${(100 * share).toFixed(1)}%`));
  });
  fill(holder, el("table", { class: "bars" }, el("tbody", {}, rows)),
    note(`${importance.method}; ${importance.trials} trials, ${(100 * importance.explained).toFixed(0)}% of the variance explained.`));
}
