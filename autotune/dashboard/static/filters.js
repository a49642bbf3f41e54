// Which trials are wanted: by run, device, outcome, time and the values of knobs.
import { byId, el, fill, paletteColor } from "./draw.js";
import { count, digits, duration, kindName, runTime, shortText } from "./format.js";

const MOST_VALUES_SHOWN = 60;
let shownFilters = "";

export function drawRuns(state, ask) {
  const rows = state.view.runs.map((run, i) => {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = paletteColor(i);
    const wanted = !state.request.runs || state.request.runs.includes(run.id), fraction = run.default_seconds && run.best_seconds ? `${digits(run.default_seconds / run.best_seconds, 3)}×` : "–";
    const box = el("input", { type: "checkbox", checked: wanted, "aria-label": `Show ${state.runName(run.id)}`, onchange: () => ask({ runs: toggled(state.view.runs.map((r) => r.id), state.request.runs, run.id) }) });
    return el("tr", {}, el("td", {}, box), el("th", { scope: "row" }, swatch, shortText(state.runName(run.id), 60)),
      el("td", {}, shortText(run.target, 60)), el("td", { class: "number" }, count(run.trials)), el("td", { class: "number" }, count(run.trials - run.ok)),
      el("td", { class: "number strong" }, runTime(run.best_seconds)), el("td", { class: "number" }, runTime(run.default_seconds)), el("td", { class: "number" }, fraction),
      el("td", { class: "number" }, duration(run.spent)), el("td", {}, run.devices.join(", ")));
  });
  const heads = ["shown", "run", "target", "trials", "failed", "best", "default", "speedup", "took", "device"];
  const focus = document.activeElement?.getAttribute("aria-label");
  fill(byId("runs-panel"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows))));
  if (focus?.startsWith("Show ")) byId("runs-panel").querySelector(`[aria-label="${CSS.escape(focus)}"]`)?.focus();
}

// What is chosen after one was clicked; null stands for all.
export function toggled(all, chosen, one) {
  const now = new Set(chosen ?? all);
  if (now.has(one)) now.delete(one); else now.add(one);
  return now.size === all.length ? null : [...now];
}

export function drawFilters(state, ask) {
  const { view, request } = state;
  const devices = [...new Set(view.runs.flatMap((run) => run.devices))].sort((a, b) => a - b);
  const kinds = [...new Set([0, ...state.seenErrors])].sort((a, b) => a - b);
  const key = JSON.stringify([view.workload, devices, kinds, view.knobs.map((k) => [k.name, state.allLabels(k)]), request.devices, request.errors, request.without, request.seconds]);
  if (key !== shownFilters) {
    shownFilters = key;
    const focus = document.activeElement?.dataset?.key;
    const open = new Set([...byId("filters-panel").querySelectorAll("details[open]")].map((d) => d.dataset.key));
    fill(byId("filters-panel"),
      boxes("Outcome", kinds.map((k) => [k, kindName(k)]), request.errors, (errors) => ask({ errors }), open),
      devices.length > 1 ? boxes("Device", devices.map((d) => [d, `device ${d}`]), request.devices, (found) => ask({ devices: found }), open) : null,
      timeRange(request, ask),
      view.knobs.filter((knob) => state.allLabels(knob).length > 1).map((knob) => knobBoxes(knob.name, state.allLabels(knob), request.without[knob.name] ?? [], (values) => ask({ without: withKnob(request.without, knob.name, values) }), open)),
      el("button", { type: "button", "data-key": "reset", onclick: () => ask({ runs: null, devices: null, errors: null, without: {}, seconds: null }) }, "Show all"));
    if (focus) byId("filters-panel").querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }
  const thin = view.shown < view.matching ? `; charts show ${count(view.shown)} of them, every improvement, the fastest and each failure's first among them` : "";
  fill(byId("filters-count"), `${count(view.matching)} of ${count(view.total)} trials${thin}`);
}

function withKnob(knobs, name, values) {
  const { [name]: _, ...others } = knobs;
  return values.length ? { ...others, [name]: values } : others;
}

// Of a knob those values are named that are left out: what is not shown, or comes later, stays.
function knobBoxes(name, labels, without, onChange, open) {
  const shown = labels.slice(0, MOST_VALUES_SHOWN), left = new Set(without);
  const chosen = left.size ? shown.filter((label) => !left.has(label)) : null;
  const made = boxes(name, shown.map((l) => [l, l]), chosen, (kept) => onChange(kept ? shown.filter((label) => !kept.includes(label)) : []), open, labels.length - left.size, labels.length);
  if (labels.length > shown.length) made.append(el("p", { class: "note" }, `and ${count(labels.length - shown.length)} more values, which stay`));
  return made;
}

function boxes(title, options, chosen, onChange, open, many = chosen?.length, whole = options.length) {
  const all = options.map(([value]) => value);
  const changed = chosen ? ` (${many} of ${whole})` : "";
  return el("details", { "data-key": title, open: open.has(title) || title === "Outcome" }, el("summary", {}, shortText(title, 40), changed),
    el("fieldset", {}, el("legend", { class: "hidden" }, title), options.map(([value, text]) => el("label", { class: "box" },
      el("input", { type: "checkbox", "data-key": `${title} ${value}`, checked: !chosen || chosen.includes(value), onchange: () => onChange(toggled(all, chosen, value)) }),
      shortText(text, 48)))));
}

function timeRange(request, ask) {
  const [low, high] = request.seconds ?? [null, null];
  const field = (text, value, at) => el("label", { class: "choice" }, el("span", {}, text), el("input", {
    type: "number", min: 0, step: "any", inputmode: "decimal", "data-key": text, value: value == null ? "" : value * 1e6,
    onchange: (event) => {
      const pair = [low, high], found = parseFloat(event.target.value);
      pair[at] = Number.isFinite(found) ? found / 1e6 : null;
      ask({ seconds: pair[0] == null && pair[1] == null ? null : pair });
    },
  }));
  return el("div", { class: "range" }, field("from µs", low, 0), field("to µs", high, 1));
}
