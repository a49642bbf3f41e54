// Failures by kind, each text in full.
import { byId, el, fill, note } from "./draw.js";
import { count } from "./format.js";

const openedKinds = new Set();
let shownFailures = "";

export function drawFailures(state) {
  const { failures, matching } = state.view, key = JSON.stringify([failures, matching]);
  if (key === shownFailures) return;
  shownFailures = key;
  const panel = byId("failures-panel"), total = failures.reduce((sum, kind) => sum + kind.count, 0);
  if (!total) { fill(panel, note("No trial failed.")); return; }
  fill(panel, note(`${count(total)} of ${count(matching)} trials failed (${Math.round((100 * total) / matching)}%).`),
    failures.map((kind) => failureKind(state, kind)));
}

function failureKind(state, kind) {
  const details = el("details", { open: openedKinds.has(kind.error), ontoggle: () => (details.open ? openedKinds.add(kind.error) : openedKinds.delete(kind.error)) },
    el("summary", {}, el("span", { class: "badge bad" }, count(kind.count)), ` ${kind.kind} `, el("span", { class: "note" }, firstLine(kind.texts[0]?.text))),
    el("ul", { class: "texts" }, kind.texts.map((one) => el("li", {},
      el("div", { class: "note" }, `${count(one.count)}×, first in trial ${one.trial} of ${state.runName(one.run)}, line ${one.line}`),
      el("pre", { tabindex: "0", "aria-label": "What it said" }, one.text)))),
    kind.more ? note(`and ${count(kind.more)} other texts; the table and the export have them all`) : null);
  return details;
}

function firstLine(text = "") {
  const found = text.trim().split("\n")[0];
  return found.length > 110 ? `${found.slice(0, 109)}…` : found;
}
