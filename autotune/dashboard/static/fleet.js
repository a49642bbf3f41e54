// Who builds and measures on other hosts, where a run has a fleet.
import { byId, el, fill, note } from "./draw.js";
import { count, digits } from "./format.js";

let shownWorkers = "";

export function drawWorkers(state) {
  const workers = state.overview.workers ?? [], key = JSON.stringify(workers);
  if (key === shownWorkers) return;
  shownWorkers = key;
  byId("fleet").hidden = !workers.length;
  const devices = workers.filter((row) => row.place !== "builders"), hosts = new Set(workers.map((row) => row.host));
  const rate = devices.reduce((sum, row) => sum + (row.rate ?? 0), 0), aside = workers.filter((row) => row.aside).length;
  const heads = ["worker", "place", "device", "driver", "toolkit", "queue", "done", "failed", "per second", "clock", "state"];
  fill(byId("fleet-panel"),
    note(`${count(devices.length)} ${devices.length === 1 ? "device" : "devices"} on ${count(hosts.size)} ${hosts.size === 1 ? "host" : "hosts"}, ${digits(rate, 3)} trials a second${aside ? `; ${count(aside)} set aside` : ""}`),
    el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Workers" }, el("table", {},
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, workers.map(workerRow)))));
}

function workerRow(row) {
  const number = (value) => el("td", { class: "number" }, value);
  return el("tr", {},
    el("th", { scope: "row" }, row.worker === row.host ? row.host : `${row.worker} · ${row.host}`), el("td", {}, row.place), el("td", {}, [row.device, row.arch].filter(Boolean).join(", ")),
    el("td", {}, row.driver), el("td", {}, row.toolkit), number(count(row.queue)), number(count(row.done)), number(count(row.failed)), number(digits(row.rate, 3)),
    number(row.clock == null ? "" : `${digits(row.clock, 4)}×`), el("td", { class: row.aside ? "bad" : "" }, row.aside ? `set aside: ${row.aside}` : "takes part"));
}
