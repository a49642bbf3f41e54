// Energy over time, each trial a dot, and the trials that no other one beats in both.
import { byId, fill, note, paletteColor } from "./draw.js";
import { aligned, axisStyle, dots, groupsOf, microTicks, plot, tightScale } from "./plots.js";
import { count, energyOf, runTime } from "./format.js";

export function drawEnergy(state) {
  const { points, fronts } = state.view;
  byId("energy").hidden = !fronts.length;
  if (!fronts.length) return;
  const groups = groupsOf(state), hits = [], data = [], series = [];
  for (const group of groups) {
    const x = [], y = [];
    points.joules.forEach((joules, at) => {
      if (joules == null || points.seconds[at] == null || !group.has(points, at)) return;
      const us = points.seconds[at] * 1e6;
      x.push(us); y.push(joules);
      hits.push({ x: us, y: joules, tip: () => [...state.describe(at), `${energyOf(joules)} a run, ${energyOf(joules / points.seconds[at], "W")}`] });
    });
    data.push({ x, y });
    series.push(dots(`${group.color}88`));
  }
  for (const front of fronts) {
    const color = paletteColor(state.view.runs.findIndex((run) => run.id === front.run));
    const x = front.seconds.map((seconds) => seconds * 1e6);
    data.push({ x, y: front.joules });
    series.push({ stroke: color, width: 2, spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }), points: { show: true, size: 8, width: 2, stroke: color, fill: color } });
    front.trial.forEach((trial, i) => hits.push({ x: x[i], y: front.joules[i], tip: () => [`${runTime(front.seconds[i])}, ${energyOf(front.joules[i])} a run`, state.runName(front.run), `trial ${count(trial)}: no other takes less of both`] }));
  }
  const label = `Time and energy. ${fronts.map((front) => frontText(state, front)).join(" ")}`;
  fill(byId("energy-note"), note(label));
  const scales = { x: { time: false, ...tightScale(hits.map((one) => one.x)) }, y: tightScale(hits.map((one) => one.y)) };
  plot("energy-chart", label, {
    shape: [groups.map((group) => group.name), series.length, scales.x.distr, scales.y.distr], series, scales,
    axes: [axisStyle({ label: "time of one run", labelSize: 20, size: 40, values: microTicks }), axisStyle({ size: 72, values: (_, ticks) => ticks.map((one) => (one == null ? "" : energyOf(one))) })],
  }, aligned(data), hits);
}

function frontText(state, front) {
  const last = front.trial.length - 1, at = (i) => `${runTime(front.seconds[i])} and ${energyOf(front.joules[i])}`;
  const ends = last ? `the fastest takes ${at(0)}, that of least energy ${at(last)}` : `one is best in both: ${at(0)}`;
  return `${state.runName(front.run)}: of ${count(front.known)} trials with energy, ${ends}; ${count(last + 1)} ${last ? "are" : "is"} on the Pareto front.`;
}
