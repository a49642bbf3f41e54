// Where the data comes from: a server that follows logs, or what stands in the page itself.
import { byId } from "./draw.js";
import { csvOf, download } from "./trials.js";
import { kindName } from "./format.js";

const PAGE_ROWS = 100;
const PAUSES = [500, 1000, 2000, 4000];

export function openSource(told) {
  const embedded = byId("snapshot");
  return embedded ? new Embedded(JSON.parse(embedded.textContent), told) : new Socket(told);
}

// Told: {overview(data), view(data), status(word, text)}.
class Socket {
  constructor(told) {
    this.live = true;
    this.told = told;
    this.tries = 0;
    this.connect();
  }

  connect() {
    this.told.status("connecting", this.tries ? "connecting again" : "connecting");
    // Relative, as all else that the page asks for: a proxy may serve it in a folder of its own.
    const where = new URL("live", location.href);
    where.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(where);
    this.socket.onopen = () => {
      this.tries = 0;
      if (this.request) this.send();
    };
    this.socket.onmessage = (event) => {
      const data = JSON.parse(event.data);
      if (data.type === "overview") this.told.overview(data);
      if (data.type === "view") this.told.view(data);
    };
    this.socket.onclose = (event) => {
      const pause = PAUSES[Math.min(this.tries, PAUSES.length - 1)];
      this.tries += 1;
      this.told.status("lost", `${event.code === 1011 ? event.reason : "the server is away"}; trying again`);
      setTimeout(() => this.connect(), pause);
    };
  }

  ask(request) {
    this.request = request;
    this.send();
  }

  send() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.request));
  }

  export(format) {
    const link = document.createElement("a");
    link.href = `export?format=${format}&view=${encodeURIComponent(JSON.stringify(this.request))}`;
    link.download = "";
    document.body.append(link);
    link.click();
    link.remove();
  }
}

class Embedded {
  constructor(data, told) {
    this.live = false;
    this.data = data;
    for (const view of data.views) {
      const own = new Set(view.runs.map((run) => run.id));
      view.timeline = data.timelines[view.timeline];
      view.roofline.others = data.others.filter((one) => !own.has(one.run));
    }
    this.told = told;
    told.status("report", "report");
    queueMicrotask(() => told.overview(data.overview));
  }

  ask(request) {
    this.request = request;
    const whole = this.data.views[request.workload];
    if (whole) this.told.view(chosenOf(whole, request, this.data.overview));
  }

  export(format) {
    const whole = this.data.views[this.request.workload];
    const rows = rowsOf(whole, wantedOf(whole, this.request), this.data.overview);
    const text = format === "json" ? JSON.stringify(rows, null, 1) : csvOf(rows, whole.knobs.map((knob) => knob.name));
    download(`trials.${format}`, format === "json" ? "application/json" : "text/csv", text);
  }
}

function wantedOf(view, request) {
  const { points } = view, [low, high] = request.seconds ?? [null, null];
  const knobs = view.knobs.map((knob, i) => [i, request.without[knob.name] && new Set(request.without[knob.name].map((label) => knob.labels.indexOf(label)))]).filter(([, codes]) => codes);
  return points.trial.map((_, at) => at).filter((at) => (!request.runs || request.runs.includes(points.run[at]))
    && (!request.devices || request.devices.includes(points.device[at])) && (!request.errors || request.errors.includes(points.error[at]))
    && (points.seconds[at] == null || ((low == null || points.seconds[at] >= low) && (high == null || points.seconds[at] <= high)))
    && knobs.every(([i, codes]) => !codes.has(points.knobs[i][at])));
}

// A view as the server would give it, of the points that stand in the page.
function chosenOf(view, request, overview) {
  const at = wantedOf(view, request), { points } = view, all = at.length === points.trial.length;
  const pick = (column) => at.map((i) => column[i]);
  const kept = Object.fromEntries(Object.entries(points).map(([name, column]) => [name, name === "knobs" ? column.map(pick) : pick(column)]));
  const kinds = new Set(kept.error);
  return { ...view, points: kept, matching: all ? view.matching : at.length, shown: at.length, best: all ? view.best : bestOf(view, kept), fronts: all ? view.fronts : frontsOf(view, kept),
    failures: all ? view.failures : view.failures.filter((kind) => kinds.has(kind.error)).map((kind) => ({ ...kind, count: kept.error.filter((one) => one === kind.error).length })),
    table: tableOf(view, at, request, overview) };
}

function bestOf(view, points) {
  return view.runs.map((run) => {
    const found = { run: run.id, trial: [], time: [], seconds: [], last_trial: 0, last_time: 0 };
    points.trial.forEach((trial, at) => {
      if (points.run[at] !== run.id) return;
      [found.last_trial, found.last_time] = [trial, Math.max(found.last_time, points.time[at])];
      const seconds = points.seconds[at];
      if (seconds == null || seconds >= (found.seconds.at(-1) ?? Infinity)) return;
      found.trial.push(trial); found.time.push(points.time[at]); found.seconds.push(seconds);
    });
    return found;
  }).filter((one) => one.trial.length);
}

// The Pareto front of time and energy of each run: the fastest first, each of less energy than all before it.
function frontsOf(view, points) {
  return view.fronts.map(({ run }) => {
    const known = points.trial.map((_, at) => at).filter((at) => points.run[at] === run && points.seconds[at] != null && points.joules[at] != null)
      .sort((a, b) => points.seconds[a] - points.seconds[b] || points.joules[a] - points.joules[b]);
    const found = { run, known: known.length, trial: [], seconds: [], joules: [] };
    for (const at of known) {
      if (points.joules[at] >= (found.joules.at(-1) ?? Infinity)) continue;
      found.trial.push(points.trial[at]); found.seconds.push(points.seconds[at]); found.joules.push(points.joules[at]);
    }
    return found;
  }).filter((one) => one.known);
}

function tableOf(view, at, request, overview) {
  const { points } = view, knob = request.sort.startsWith("knob:") ? view.knobs.findIndex((one) => `knob:${one.name}` === request.sort) : -1;
  const column = knob >= 0 ? points.knobs[knob] : points[request.sort] ?? points.trial;
  const sign = request.descending ? -1 : 1;
  const worth = (i) => (column[i] == null || (knob >= 0 && column[i] < 0) ? Infinity : sign * column[i]);
  const ordered = [...at].sort((a, b) => (worth(a) === worth(b) ? a - b : worth(a) - worth(b)));
  const offset = Math.min(request.offset, Math.max(0, ordered.length - 1));
  return { total: ordered.length, offset, sort: request.sort, descending: request.descending, rows: rowsOf(view, ordered.slice(offset, offset + PAGE_ROWS), overview) };
}

function rowsOf(view, places, overview) {
  const { points } = view, runs = new Map(view.runs.map((run) => [run.id, run]));
  return places.map((at) => {
    const run = runs.get(points.run[at]);
    const row = { run: run.id, log: overview.logs[run.log].name, target: run.target, config: {}, error_msg: points.error[at] ? kindName(points.error[at]) : "" };
    for (const name of ["trial", "line", "key", "time", "seconds", "spread", "error", "device", "roofline", "joules", "all_cost"]) row[name] = points[name][at];
    view.knobs.forEach((knob, i) => { if (points.knobs[i][at] >= 0) row.config[knob.name] = knob.labels[points.knobs[i][at]]; });
    return row;
  });
}
