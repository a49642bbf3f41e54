// The logs, the table of what was tuned, and the numbers at the top.
import { byId, el, fill } from "./draw.js";
import { count, digits, duration, percent, runTime, shortText } from "./format.js";
import { isShown } from "./plots.js";

export function drawLogs(state) {
  const { logs } = state.overview;
  fill(byId("logs-panel"), logs.map((log) => {
    const words = [`${count(log.trials)} trials`];
    if (log.read < log.bytes) words.push(`${percent(log.read / log.bytes, 2)} read`);
    if (log.state !== "following") words.push(log.state === "missing" ? "waiting for the file" : log.state);
    if (log.older) words.push(`${count(log.older)} of an older kernel text left out`);
    if (log.restarts) words.push(`read anew ${log.restarts}×`);
    const bad = log.unreadable ? el("details", {}, el("summary", {}, `${count(log.unreadable)} lines could not be read`),
      el("ul", {}, log.problems.map((one) => el("li", {}, `line ${one.line}: ${one.reason}`)))) : null;
    return el("li", {}, el("strong", {}, log.name), ` ${words.join(", ")}`, bad);
  }));
}

let shownWorkloads = "";

export function drawWorkloads(state, choose) {
  const { workloads, more } = state.overview, panel = byId("workloads");
  panel.hidden = workloads.length < 2;
  const key = JSON.stringify([workloads, state.request.workload]);
  if (panel.hidden || key === shownWorkloads) return;
  shownWorkloads = key;
  const spent = workloads.reduce((sum, one) => sum + (one.spent ?? 0), 0) || 1;
  const focus = document.activeElement?.dataset?.key;
  const rows = workloads.map((one) => el("tr", { class: one.id === state.request.workload ? "chosen" : null },
    el("th", { scope: "row" }, el("button", { type: "button", class: "link", "data-key": `workload ${one.id}`, "aria-current": one.id === state.request.workload ? "true" : null, title: one.title, onclick: () => choose(one.id) }, shortText(one.title, 80))),
    el("td", {}, one.kind.replace("_", "-")), el("td", { class: "number" }, String(one.runs)), el("td", { class: "number" }, count(one.trials)), el("td", { class: "number" }, count(one.trials - one.ok)),
    el("td", { class: "number strong" }, runTime(one.best_seconds)), el("td", { class: "number" }, one.default_seconds ? `${digits(one.default_seconds / one.best_seconds, 3)}×` : "–"),
    el("td", { class: "number" }, `${Math.round((100 * (one.spent ?? 0)) / spent)}%`)));
  const heads = ["task", "kind", "runs", "trials", "failed", "best", "speedup", "of time spent"];
  fill(byId("workloads-table"), el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)),
    more ? el("p", { class: "note" }, `and ${count(more)} more`) : null);
  if (focus) panel.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

export function drawTiles(state) {
  const { view } = state, runs = view.runs, best = Math.min(...runs.map((r) => r.best_seconds ?? Infinity));
  const fastest = runs.find((run) => run.best_seconds === best), trials = runs.reduce((sum, run) => sum + run.trials, 0), failed = trials - runs.reduce((sum, run) => sum + run.ok, 0);
  const took = Math.max(...runs.map((run) => run.spent ?? 0), 0), pauses = Math.max(...runs.map((run) => run.pauses ?? 0));
  const share = Math.max(...view.points.roofline.filter((one) => one != null), 0);
  const number = fastest?.best_trial, raced = view.winners.some((one) => one.race && one.run === fastest?.id);
  const tiles = [
    ["best time", runTime(Number.isFinite(best) ? best : null), number ? `trial ${count(number)}${raced ? ", in the final race" : ""}${isShown(view, fastest) ? "" : ", left out by the filters"}` : ""],
    ["against the default", fastest?.default_seconds ? `${digits(fastest.default_seconds / best, 3)}×` : "–", fastest?.default_seconds ? `default ${runTime(fastest.default_seconds)}` : state.live && runs.some((run) => run.ok) ? "no final race in the log yet" : "the log does not say"],
    ["trials", count(trials), took ? `${digits((60 * trials) / took, 3)} a minute` : ""],
    ["failed", trials ? percent(failed / trials, 3) : "–", `${count(failed)} trials`],
    ["of the ceiling", share ? percent(share) : "–", share ? "best trial" : "not declared"],
    ["time spent", duration(took), [pauses && `without ${pauses} pause${pauses > 1 ? "s" : ""}`, runs.length > 1 && `longest of ${runs.length} runs`].filter(Boolean).join(", ")],
  ];
  fill(byId("tiles"), tiles.map(([name, value, about]) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", {}, about)))));
}
