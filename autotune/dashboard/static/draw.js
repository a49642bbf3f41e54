// Elements, colours and canvases. Text of a log becomes text nodes only, never markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
}

// Okabe and Ito's palette, which colour-blind people tell apart, after the theme's accent.
const PALETTE = ["--run0", "--run1", "--run2", "--run3", "--run4", "--run5", "--run6", "--run7"];

export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function paletteColor(place) {
  return themeColor(PALETTE[place % PALETTE.length]);
}

// From fast (the theme's best) to slow, share between 0 and 1.
export function heatColor(share) {
  const stops = ["--heat0", "--heat1", "--heat2", "--heat3"].map(themeColor).map(channels);
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const mixed = stops[low].map((one, i) => Math.round(one + (stops[low + 1][i] - one) * (at - low)));
  return `rgb(${mixed.join(",")})`;
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// A canvas as wide as its holder, sharp on every screen, and its context in CSS pixels.
export function canvasIn(holder, height, label) {
  let canvas = holder.querySelector("canvas");
  if (!canvas) {
    canvas = el("canvas", { role: "img", tabindex: "0" });
    holder.append(canvas);
  }
  const width = Math.max(240, holder.clientWidth);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.setAttribute("aria-label", label);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { canvas, context, width, height };
}

// One tooltip for all charts; what it says is in the table too.
export function tip(event, lines) {
  const box = byId("tip");
  if (!lines || !lines.length) {
    box.hidden = true;
    return;
  }
  fill(box, lines.map((line, i) => el("div", { class: i ? "" : "strong" }, line)));
  box.hidden = false;
  const { innerWidth, innerHeight } = window;
  const left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
  const top = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8);
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, top)}px`;
}

export function chooser(label, options, chosen, onChange) {
  const select = el("select", { "aria-label": label, onchange: () => onChange(select.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "choice" }, el("span", {}, label), select);
}

export function toggles(label, options, chosen, onChange) {
  return el("div", { class: "toggles", role: "group", "aria-label": label },
    options.map(([value, text]) => el("button", {
      type: "button", "aria-pressed": value === chosen ? "true" : "false",
      onclick: () => onChange(value),
    }, text)));
}

export function note(text) {
  return el("p", { class: "note" }, text);
}
