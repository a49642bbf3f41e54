// The page: what is asked for, what is known, and drawing it again when either changes.
import { byId, themeColor, tip } from "./draw.js";
import { count, runTime } from "./format.js";
import { drawBest, drawKnob, resized, trialTip } from "./plots.js";
import { drawImportance, drawParallel } from "./parallel.js";
import { drawHeat } from "./heat.js";
import { drawTimeline } from "./timeline.js";
import { drawRoofline } from "./roofline.js";
import { drawEnergy } from "./energy.js";
import { drawWinner } from "./winner.js";
import { drawFailures } from "./failures.js";
import { drawFilters, drawRuns } from "./filters.js";
import { drawTrials } from "./trials.js";
import { drawLogs, drawTiles, drawWorkloads } from "./overview.js";
import { drawWorkers } from "./fleet.js";
import { openSource } from "./source.js";

const NOTHING_ASKED = { workload: 0, runs: null, devices: null, errors: null, without: {}, seconds: null, timeline_end: null, sort: "trial", descending: true, offset: 0 };

const state = {
  live: true, overview: null, view: null, request: { ...NOTHING_ASKED }, seenErrors: new Set(), labels: new Map(),
  runName(id) {
    const run = this.view.runs.find((one) => one.id === id), log = this.overview.logs[run?.log]?.name ?? `run ${id}`;
    const alike = this.view.runs.filter((one) => one.log === run?.log).length > 1;
    return alike ? `${log} · ${run.target.split(" ")[0]} #${id}` : log;
  },
  describe(at) {
    return trialTip(this.view, (id) => this.runName(id), at);
  },
  allLabels(knob) {
    return this.labels.get(knob.name) ?? knob.labels;
  },
};

function setStatus(word, text) {
  const pill = byId("status");
  pill.className = `pill ${word}`;
  pill.textContent = text;
}

function ask(changes, workload = state.request.workload) {
  if (workload !== state.request.workload) {
    state.request = { ...NOTHING_ASKED, workload };
    state.seenErrors = new Set();
    state.labels = new Map();
  }
  if (!("offset" in changes) && !("sort" in changes) && !("timeline_end" in changes)) changes = { ...changes, offset: 0 };
  state.request = { ...state.request, ...changes };
  askedAt = performance.now();
  source.ask(state.request);
}

function tookOverview(data) {
  const first = !state.overview;
  if (state.overview && data.version !== state.overview.version) { location.reload(); return; }
  state.overview = data;
  if (source.live) setStatus("live", "live");
  byId("empty").hidden = data.workloads.length > 0;
  byId("empty").textContent = source.live
    ? "Nothing was measured yet. This page follows the log and fills when the first trial ends."
    : "This log has no trials.";
  byId("content").hidden = !data.workloads.length;
  drawLogs(state);
  drawWorkers(state);
  if (state.request.workload >= data.workloads.length) state.request = { ...NOTHING_ASKED };
  drawWorkloads(state, (id) => ask({}, id));
  if (first) source.ask(state.request);
}

function tookView(view) {
  if (!state.overview || view.workload !== state.request.workload || !view.runs.length) return;
  state.view = view;
  view.points.error.forEach((error) => state.seenErrors.add(error));
  for (const knob of view.knobs) if (!state.labels.has(knob.name) || state.labels.get(knob.name).length < knob.labels.length) state.labels.set(knob.name, knob.labels);
  byId("title").textContent = state.overview.workloads[view.workload]?.title ?? "";
  const best = Math.min(...view.runs.map((run) => run.best_seconds ?? Infinity));
  document.title = `${Number.isFinite(best) ? `${runTime(best)} · ` : ""}${count(view.total)} trials · autotune`;
  redraw(false);
}

// What shows a view, and the element by which is told whether anybody sees it.
const PARTS = [
  ["tiles", () => drawTiles(state)], ["runs-panel", () => drawRuns(state, ask)], ["filters-panel", () => drawFilters(state, ask)],
  ["best-chart", () => drawBest(state, redraw)], ["knob-chart", () => drawKnob(state, redraw)], ["importance-chart", () => drawImportance(state)],
  ["parallel-chart", () => drawParallel(state)], ["heat-chart", () => drawHeat(state, redraw)], ["failures-panel", () => drawFailures(state)],
  ["timeline-chart", () => drawTimeline(state, ask)], ["roofline-chart", () => drawRoofline(state)], ["energy-chart", () => drawEnergy(state)], ["winner-panel", () => drawWinner(state)],
  ["trials-table", () => drawTrials(state, ask)],
];
// While a run goes on, what is out of sight is drawn at most so often, and at once when it comes into sight.
const UNSEEN_MS = 5000, ASKED_MS = 3000;
const seen = new Set(), drawnAt = new Map(), stale = new Set();
let askedAt = 0, waiting = false, later = 0;

// What the reader asked for is drawn whole; else what is out of sight may wait.
function redraw(whole = true) {
  if (whole) askedAt = performance.now();
  if (waiting || !state.view) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawAll();
    document.documentElement.dataset.drawn = String(state.view.revision);
  });
}

function drawAll() {
  const now = performance.now(), whole = !state.live || now - askedAt < ASKED_MS;
  for (const [id, draw] of PARTS) {
    if (!whole && !seen.has(id) && now - (drawnAt.get(id) ?? -Infinity) < UNSEEN_MS) { stale.add(id); continue; }
    draw();
    drawnAt.set(id, now);
    stale.delete(id);
  }
  clearTimeout(later);
  if (stale.size) later = setTimeout(() => redraw(false), UNSEEN_MS);
}

const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) seen.add(target.id); else seen.delete(target.id);
  }
  if ([...stale].some((id) => seen.has(id))) redraw(false);
}, { rootMargin: "100px" });
for (const [id] of PARTS) sight.observe(byId(id));
addEventListener("beforeprint", () => { askedAt = performance.now(); if (state.view) drawAll(); });

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", theme === "dark" ? "true" : "false");
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  resized();
  redraw();
}

function keptTheme() {
  try { return localStorage.getItem("autotune-theme"); } catch { return null; }
}

byId("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("autotune-theme", theme); } catch { /* a file may keep nothing */ }
  setTheme(theme);
});
byId("export-csv").addEventListener("click", () => source.export("csv"));
byId("export-json").addEventListener("click", () => source.export("json"));
document.addEventListener("scroll", (event) => tip(event, null), { passive: true });

let resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { resized(); redraw(); }, 150);
});

const source = openSource({ overview: tookOverview, view: tookView, status: setStatus });
state.live = source.live;
setTheme(keptTheme() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
if (!themeColor("--text")) setStatus("lost", "the style sheet is missing");
