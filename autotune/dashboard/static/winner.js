// The winner: its choices, resources, the race with its intervals, and its source.
import { byId, el, fill, note } from "./draw.js";
import { digits, energyOf, percent, runTime, spreadText, valueText } from "./format.js";

const TOKENS = /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(^[ \t]*#[^\n]*)|\b(0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?[fFuUlL]*)\b|\b(auto|bool|char|const|constexpr|double|extern|float|float2|float4|half|inline|int|int2|int4|int8_t|int16_t|int32_t|int64_t|long|restrict|short|signed|size_t|static|struct|template|typedef|typename|uint2|uint4|uint8_t|uint16_t|uint32_t|uint64_t|unsigned|void|volatile|__\w+__)\b|\b(break|case|continue|do|else|for|if|return|switch|while|asm|__syncthreads|threadIdx|blockIdx|blockDim|gridDim)\b/gm;
const CLASSES = ["comment", "string", "macro", "number", "type", "keyword"];
const LONGEST = 200000;

export function highlighted(text) {
  const parts = [];
  let at = 0;
  for (const match of text.slice(0, LONGEST).matchAll(TOKENS)) {
    parts.push(text.slice(at, match.index));
    parts.push(el("span", { class: `code-${CLASSES[match.slice(1).findIndex((one) => one !== undefined)]}` }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

let openedSources = new Set();
let shownWinners = "";

export function drawWinner(state) {
  const { winners } = state.view, key = JSON.stringify([winners, state.view.runs.map((r) => state.runName(r.id))]);
  if (key === shownWinners) return;
  shownWinners = key;
  const panel = byId("winner-panel");
  if (!winners.length) { fill(panel, note("No trial has succeeded yet.")); return; }
  fill(panel, winners.map((one) => winnerCard(state, one)));
}

function winnerCard(state, one) {
  const run = state.view.runs.find((known) => known.id === one.run);
  const faster = run?.default_seconds ? `${digits(run.default_seconds / one.seconds, 3)}× as fast as the default` : null;
  const facts = [
    ["time of one run", `${runTime(one.seconds)} ${spreadText(one.spread)}`],
    one.ci95 && ["95% interval", one.ci95.map(runTime).join(" to ")],
    run?.default_seconds && ["default", `${runTime(run.default_seconds)}; ${faster}`],
    one.roofline != null && ["of the ceiling", percent(one.roofline)],
    one.joules != null && ["energy of one run", `${energyOf(one.joules)}${one.watts == null ? "" : ` at ${energyOf(one.watts, "W")}`}`],
    one.samples != null && ["samples", String(one.samples)],
    ["answer", one.verified ? "checked" : one.verified === false ? "not checked" : "the log does not say"],
    ["candidate", `${one.key} (line ${one.line})`],
  ].filter(Boolean);
  const resources = Object.entries(one.resources).filter(([, value]) => value != null);
  return el("article", { class: "winner" }, el("h3", {}, state.runName(one.run)),
    el("div", { class: "columns" },
      listOf("Result", facts),
      listOf("Configuration", Object.entries(one.config).map(([name, value]) => [name, valueText(value)])),
      resources.length ? listOf("Resources", resources.map(([name, value]) => [name.replaceAll("_", " "), String(value)])) : null,
      Object.keys(one.clocks).length ? listOf("Device", Object.entries(one.clocks).map(([name, value]) => [name.replaceAll("_", " "), valueText(value)])) : null),
    one.race && one.race.candidates.length ? raceTable(one) : note("No final race in this log yet: this is the fastest trial, which is partly the luckiest."),
    sourceOf(one));
}

function listOf(title, pairs) {
  return el("div", {}, el("h4", {}, title), el("dl", {}, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

function raceTable(one) {
  const { race } = one, all = race.candidates.flatMap((c) => c.ci95.flat()).filter(Number.isFinite);
  const low = Math.min(...all), high = Math.max(...all), span = high - low || 1;
  const rows = race.candidates.map((ran) => {
    const marks = [ran.key === one.key && "winner", ran.key === race.default && "default", race.tied.includes(ran.key) && "tied"].filter(Boolean);
    const bars = el("div", { class: "intervals" }, ran.ci95.map((interval, i) => {
      const bar = el("span", { class: "interval" }), middle = el("span", { class: "middle" });
      bar.style.left = `${(100 * (interval[0] - low)) / span}%`;
      bar.style.width = `${Math.max(0.5, (100 * (interval[1] - interval[0])) / span)}%`;
      middle.style.left = `${(100 * ((ran.medians[i] ?? interval[0]) - low)) / span}%`;
      return [bar, middle];
    }));
    return el("tr", { class: ran.key === one.key ? "best" : null }, el("th", { scope: "row" }, ran.key),
      el("td", { class: "number" }, runTime(ran.seconds)),
      el("td", {}, ran.ci95.map((i) => i.map(runTime).join(" to ")).join("; ") || "–"),
      el("td", { class: "wide" }, bars), el("td", {}, marks.join(", ")));
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Final race" }, el("table", {}, el("caption", {}, `Final race, side by side${race.rounds ? `, ${race.rounds[0]} of ${race.rounds[1]} rounds` : ""}: medians and their 95% intervals`),
    el("thead", {}, el("tr", {}, ["candidate", "median", "95% interval", "intervals on one scale", ""].map((head) => el("th", { scope: "col" }, head || "verdict")))), el("tbody", {}, rows)));
}

function sourceOf(one) {
  if (!one.source) return one.source_note ? note(`Source: ${one.source_note}.`) : null;
  const key = `${one.run} ${one.key}`;
  const details = el("details", { open: openedSources.has(key), ontoggle: () => (details.open ? openedSources.add(key) : openedSources.delete(key)) },
    el("summary", {}, `Source (${one.language}, ${one.source.split("\n").length} lines)`),
    el("pre", { class: "source", tabindex: "0", "aria-label": "Source of the winner" }, el("code", {}, highlighted(one.source))));
  return details;
}
