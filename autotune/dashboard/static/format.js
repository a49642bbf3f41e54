// Numbers and texts as people read them.

const KINDS = ["ok", "INSTANTIATION_ERROR", "COMPILE_HOST", "COMPILE_DEVICE", "RUNTIME_DEVICE",
  "WRONG_ANSWER", "BUILD_TIMEOUT", "RUN_TIMEOUT", "UNKNOWN_ERROR"];

export function kindName(error) {
  return KINDS[error] ?? `error ${error}`;
}

// With `zeros` as many digits as asked for, so that numbers of a column are of one length.
export function digits(value, count = 4, zeros = false) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(count - 1);
  const places = size >= 1 ? Math.max(0, count - 1 - Math.floor(Math.log10(size))) : count;
  const text = value.toFixed(places);
  return zeros ? text : String(Number(text));
}

function inUnit(seconds, written) {
  if (seconds == null || !Number.isFinite(seconds)) return "–";
  if (seconds >= 1) return `${written(seconds)} s`;
  if (seconds >= 1e-3) return `${written(seconds * 1e3)} ms`;
  if (seconds >= 1e-6) return `${written(seconds * 1e6)} µs`;
  return `${written(seconds * 1e9)} ns`;
}

// Seconds of one run of a kernel.
export function runTime(seconds) {
  return inUnit(seconds, (value) => digits(value));
}

// The same in a column of a table.
export function columnTime(seconds) {
  return inUnit(seconds, (value) => digits(value, 4, true));
}

// Seconds of people's time.
export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "–";
  if (seconds > 0 && seconds < 1) return inUnit(seconds, (value) => digits(value, 3));
  if (Math.abs(seconds) < 60) return `${digits(seconds, 3)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds - 60 * minutes)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function percent(share, count = 3) {
  return share == null ? "–" : `${digits(100 * share, count)}%`;
}

export function spreadText(spread) {
  return spread == null ? "" : `±${percent(spread, 2)}`;
}

export function rate(perSecond, unit) {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const found = steps.find(([size]) => perSecond >= size) ?? [1, ""];
  return `${digits(perSecond / found[0])} ${found[1]}${unit}`;
}

// Joules, or watts, with a prefix.
export function energyOf(value, unit = "J") {
  if (value == null || !Number.isFinite(value)) return "–";
  const steps = [[1, ""], [1e-3, "m"], [1e-6, "µ"]];
  const [size, prefix] = steps.find(([one]) => Math.abs(value) >= one) ?? [1e-9, "n"];
  return `${digits(value / size)} ${prefix}${unit}`;
}

export function count(value) {
  return Number(value).toLocaleString("en-US");
}

export function shortText(text, most = 60) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

export function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
