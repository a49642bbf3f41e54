// The table of trials, sorted by any column, and its export.
import { byId, el, fill } from "./draw.js";
import { columnTime, count, duration, energyOf, kindName, percent, shortText, spreadText } from "./format.js";

const COLUMNS = [["trial", "trial"], ["run", "run"], ["seconds", "time"], ["spread", "spread"], ["error", "outcome"],
  ["time", "ended after"], ["all_cost", "took"], ["device", "device"], ["roofline", "of ceiling"]];
const ENERGY = ["joules", "energy"];
const MOST_KNOB_COLUMNS = 12;

export function drawTrials(state, ask) {
  const { table, knobs, fronts } = state.view, energy = fronts.length > 0;
  const shown = knobs.slice(0, MOST_KNOB_COLUMNS);
  const heads = [...COLUMNS, ...(energy ? [ENERGY] : []), ...shown.map((knob) => [`knob:${knob.name}`, knob.name])];
  const focus = document.activeElement?.dataset?.key;
  const sorted = (key) => (table.sort !== key ? "none" : table.descending ? "descending" : "ascending");
  fill(byId("trials-table"), el("table", {}, el("caption", { class: "hidden" }, "Trials"),
    el("thead", {}, el("tr", {}, heads.map(([key, text]) => el("th", { scope: "col", "aria-sort": sorted(key) },
      el("button", { type: "button", class: "sort", "data-key": `sort ${key}`, title: text, onclick: () => ask({ sort: key, descending: table.sort === key ? !table.descending : key === "trial", offset: 0 }) }, shortText(text, 24),
        el("span", { "aria-hidden": "true" }, { none: "", ascending: " ▲", descending: " ▼" }[sorted(key)])))))),
    el("tbody", {}, table.rows.map((row) => trialRow(state, row, shown, energy)))));
  pager(table, ask);
  if (focus) document.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

function trialRow(state, row, knobs, energy) {
  const outcome = row.error ? el("td", { class: "bad", title: row.error_msg.slice(0, 2000) }, kindName(row.error)) : el("td", {}, "ok");
  return el("tr", {}, el("th", { scope: "row", class: "number" }, count(row.trial)), el("td", {}, shortText(state.runName(row.run), 28)),
    el("td", { class: "number strong" }, columnTime(row.seconds)), el("td", { class: "number" }, spreadText(row.spread)), outcome,
    el("td", { class: "number" }, duration(row.time)), el("td", { class: "number" }, duration(row.all_cost)), el("td", { class: "number" }, String(row.device)),
    el("td", { class: "number" }, percent(row.roofline)), energy ? el("td", { class: "number" }, energyOf(row.joules)) : null, knobs.map((knob) => el("td", {}, shortText(row.config[knob.name] ?? "", 40))));
}

function pager(table, ask) {
  const size = Math.max(1, table.rows.length), last = table.offset + table.rows.length;
  const button = (text, off, offset) => el("button", { type: "button", "data-key": `page ${text}`, disabled: off, onclick: () => ask({ offset: Math.max(0, offset) }) }, text);
  fill(byId("trials-pager"), button("First", table.offset === 0, 0), button("Previous", table.offset === 0, table.offset - 100),
    button("Next", last >= table.total, table.offset + 100),
    el("span", { class: "note" }, table.total ? `${count(table.offset + 1)} to ${count(table.offset + (table.rows.length ? size : 0))} of ${count(table.total)}` : "no trial matches"));
}

const EXPORTED = ["log", "target", "trial", "line", "key", "seconds", "spread", "error", "error_msg", "all_cost", "time", "timestamp", "device", "roofline", "joules"];

// What a spreadsheet would run as a formula gets an apostrophe before it.
function cell(value) {
  if (value == null) return "";
  let text = String(value);
  if (typeof value === "string" && /^[\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf(rows, knobs) {
  const heads = [...EXPORTED, ...knobs.map((name) => `config.${name}`)].map(cell);
  const lines = rows.map((row) => [...EXPORTED.map((key) => row[key]), ...knobs.map((name) => row.config[name])].map(cell).join(","));
  return [heads.join(","), ...lines].join("\n") + "\n";
}

export function download(name, type, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
