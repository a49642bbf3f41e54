// The roofline: operations per second over operations per byte, each trial a dot.
import { byId, fill, note, paletteColor, themeColor } from "./draw.js";
import { aligned, axisStyle, dots, empty, jitter, plot } from "./plots.js";
import { percent, rate, runTime, shortText } from "./format.js";

export function drawRoofline(state) {
  const { view } = state, { roofline, points } = view;
  fill(byId("roofline-note"));
  if (!roofline.roofs.length) {
    const best = Math.max(...points.roofline.filter((one) => one != null), 0);
    empty("roofline-chart", best ? `The best trial reaches ${percent(best)} of the device's ceiling; this log does not contain the ceilings themselves.`
      : "Nothing to compare with: the template declares no operations and bytes (cfg.add_flop, cfg.add_bytes), or the log does not say.");
    return;
  }
  const known = new Map(roofline.roofs.map((roof) => [roof.run, roof]));
  const hits = [], data = [], series = [];
  view.runs.forEach((run, i) => {
    const roof = known.get(run.id);
    if (!roof) return;
    const x = [], y = [], middle = roof.flop / roof.bytes;
    points.seconds.forEach((seconds, at) => {
      if (seconds == null || points.run[at] !== run.id) return;
      const where = middle * 1.06 ** jitter(points.trial[at]);
      x.push(where); y.push(roof.flop / seconds);
      hits.push({ x: where, y: roof.flop / seconds, tip: () => [...state.describe(at), `${rate(roof.flop / seconds, "FLOP/s")}, ${percent(points.roofline[at])} of the ceiling`] });
    });
    data.push({ x, y });
    series.push(dots(`${paletteColor(i)}88`));
  });
  const others = roofline.others.filter((one) => one.seconds && one.bytes);
  if (others.length) {
    data.push({ x: others.map((o) => o.flop / o.bytes), y: others.map((o) => o.flop / o.seconds) });
    series.push(dots(themeColor("--muted"), 6));
    for (const one of others) hits.push({ x: one.flop / one.bytes, y: one.flop / one.seconds, tip: () => [shortText(one.title, 60), `best ${runTime(one.seconds)}`] });
  }
  const middles = roofline.roofs.map((r) => r.flop / r.bytes).filter((one) => one > 0);
  roofline.roofs.forEach((roof) => roofLine(roof, middles, data, series));
  if (!hits.length) { empty("roofline-chart", "No trial has succeeded yet."); return; }
  const first = roofline.roofs[0];
  const label = `Roofline: ${rate(first.flops, "FLOP/s")} and ${rate(first.bandwidth, "B/s")} at most; this workload does ${(first.flop / first.bytes).toPrecision(3)} operations a byte; the best trial reaches ${percent(Math.max(...points.roofline.filter((one) => one != null), 0))} of the ceiling.`;
  fill(byId("roofline-note"), note(label));
  plot("roofline-chart", label, {
    shape: [series.length, middles, others.length], series,
    scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
    axes: [axisStyle({ label: "operations a byte", labelSize: 20, size: 40 }), axisStyle({ size: 92, values: (_, ticks) => ticks.map((one) => (one == null ? "" : rate(one, "FLOP/s"))) })],
  }, aligned(data), hits);
}

function roofLine(roof, middles, data, series) {
  const ridge = roof.flops && roof.bandwidth ? roof.flops / roof.bandwidth : roof.flop / roof.bytes;
  const low = Math.min(ridge, ...middles) / 8, high = Math.max(ridge, ...middles) * 8;
  const top = (x) => Math.min(roof.flops || Infinity, x * roof.bandwidth);
  const x = [low, ridge, high];
  data.push({ x, y: x.map(top) });
  series.push({ stroke: themeColor("--text"), width: 2, spanGaps: true, points: { show: false } });
}
