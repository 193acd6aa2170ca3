// What all parts of the page use: requests, elements, numbers, tables, pictures and the dialog that asks twice.

const SVG = "http://www.w3.org/2000/svg";
const DIGITS = 3; // of a half-width; what lies below them says nothing

export const $ = (id) => document.getElementById(id);
export const session = { token: sessionStorage.getItem("holdfast-token"), me: null };

// What the visitor owns. The service decides who may do what; this only says what is worth showing.
const grants = () => (session.me === null ? [] : [session.me, ...session.me.also]).filter((grant) => grant.role === "owner");
export const ownsSomething = () => grants().length > 0;
export const ownsEverything = () => grants().some((grant) => grant.dataset === "*");
export const ownsDataset = (name) => grants().some((grant) => ["*", `dataset:${name}`].includes(grant.dataset));

let signedOut = () => {};
export function whenSignedOut(work) {
  signedOut = work;
}

export class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? "Something went wrong.");
    this.problem = problem;
  }
}

// A body is sent as JSON, or as it is if it has a kind of its own. A request with a key is done once, however often it is sent.
// `file` is the name under which the reply is saved; nothing is returned then.
export async function call(method, path, body, { kind, key, file } = {}) {
  let response;
  try {
    response = await fetch(`/v1${path}`, {
      method,
      headers: {
        "X-Holdfast": "page",
        ...(session.token && { Authorization: `Bearer ${session.token}` }),
        ...(body && { "Content-Type": kind ?? "application/json" }),
        ...(key && { "Idempotency-Key": key }),
      },
      body: kind ? body : body && JSON.stringify(body),
    });
  } catch {
    throw new Refused({ detail: "The service does not answer. Try again." });
  }
  if (response.ok && file) return save(await response.blob(), file);
  const reply = response.status === 204 ? null : await response.json();
  if (response.status === 401) signedOut();
  if (!response.ok) throw new Refused(reply);
  return reply;
}

function save(content, name) {
  const link = element("a", undefined, { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Everything from the service is put in as text, never as markup.
export function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function part(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function list(sentences) {
  const made = element("ul");
  made.append(...sentences.map((sentence) => element("li", sentence)));
  return made;
}

export const number = (value, digits = 4) => (value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toString());
export const count = (value) => value.toLocaleString("en");

export function percent(share) {
  if (share === 0) return "0\u00a0%";
  return share < 0.001 ? "<\u00a00.1\u00a0%" : `${number(100 * share, share < 0.01 ? 1 : 2)}\u00a0%`;
}

// The account counts nats, or answers where their number is agreed on.
export function amount(value, unit) {
  const digits = unit === "nats" ? number(value, 3) : count(Math.round(value));
  return `${digits} ${digits === "1" ? unit.slice(0, -1) : unit}`;
}

export const halfWidth = (band) => `±${number((band.high - band.low) / 2, 3)}`;

// Decimals that show three digits of the half-width; null where the interval has no width, or no end.
function decimals(low, high) {
  const half = low === null || high === null ? Infinity : (high - low) / 2;
  return half > 0 && half < Infinity ? Math.min(100, Math.max(0, DIGITS - 1 - Math.floor(Math.log10(half)))) : null;
}

// A number that stands beside an interval has as many digits as the interval.
export function beside(value, { low, high }) {
  const places = decimals(low, high);
  if (value === null || value === undefined) return "–";
  return places === null ? number(value, 6) : value.toFixed(places);
}

// The ends are rounded outward.
export function interval({ low, high }) {
  const places = decimals(low, high);
  if (places === null) return `[${low === null ? "−∞" : number(low, 6)}, ${high === null ? "∞" : number(high, 6)}]`;
  const unit = 10 ** places;
  return `[${(Math.floor(low * unit) / unit).toFixed(places)}, ${(Math.ceil(high * unit) / unit).toFixed(places)}]`;
}

// A table that becomes a list of cards where the screen is narrow. The roles are said, because that takes them away.
// A cell is a text or an element; `numeric` are the places of the columns that are set to the right.
export function table(name, heads, rows, numeric = []) {
  const made = element("table", undefined, { "aria-label": name, role: "table" });
  const kind = (place) => (numeric.includes(place) ? { class: "number" } : {});
  const head = element("tr", undefined, { role: "row" });
  head.append(...heads.map((text, place) => element("th", text, { scope: "col", role: "columnheader", ...kind(place) })));
  made.createTHead().append(head);
  made.tHead.setAttribute("role", "rowgroup");
  const body = made.createTBody();
  body.setAttribute("role", "rowgroup");
  body.append(...rows.map((cells) => {
    const row = element("tr", undefined, { role: "row" });
    row.append(...cells.map((cell, place) => {
      const holder = element("td", undefined, { role: "cell", "data-label": heads[place], ...kind(place) });
      holder.append(cell);
      return holder;
    }));
    return row;
  }));
  const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "group", "aria-label": name });
  scroll.append(made);
  return scroll;
}

// Asks once more before something that cannot be taken back; the first button is the one that changes nothing. Where `typed` is
// given, that text has to be typed first.
export function confirmed(words, label, typed = null) {
  const dialog = $("confirm"), field = $("confirm-typed");
  $("confirm-words").textContent = words;
  $("confirm-yes").textContent = label;
  $("confirm-typing").hidden = typed === null;
  $("confirm-typed-label").textContent = `Type ${typed} to continue`;
  field.value = "";
  const isTyped = () => typed === null || field.value.trim() === typed;
  const allow = () => { $("confirm-yes").disabled = !isTyped(); };
  allow();
  field.oninput = allow;
  // The first button of a form is the one that Enter presses, and that is "Cancel".
  field.onkeydown = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (isTyped()) dialog.close("yes");
  };
  dialog.returnValue = "no";
  dialog.showModal();
  if (typed !== null) field.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

// Below a form: what became of it, or why it was refused.
export function tell(status, words, bad = false) {
  status.className = bad ? "bad long" : "long";
  status.textContent = words;
}

// Works for the owner in one section of the page: an error is shown once, where the work is, until it is dismissed or something
// else is done. Whatever was typed stays.
export function workplace(section) {
  const problem = $(`${section}-problem`), status = $(`${section}-status`);
  const clear = () => {
    problem.hidden = true;
    problem.querySelector("p").textContent = "";
    tell(status, "");
  };
  // What became of the work is said in words; work that returns none only shows something.
  const attempt = async (work) => {
    problem.hidden = true;
    try {
      const words = await work();
      if (words !== undefined) tell(status, words);
    } catch (error) {
      if (session.me === null) return; // Signed out meanwhile.
      tell(status, "");
      problem.querySelector("p").textContent = error.message;
      problem.hidden = false;
      problem.scrollIntoView({ block: "nearest" });
    }
  };
  problem.querySelector("button").addEventListener("click", () => {
    clear();
    ($(section).querySelector("details[open] summary") ?? $("main")).focus();
  });
  $(section).addEventListener("click", (event) => {
    if (event.target.closest("summary")) clear();
  });
  $(section).addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("confirm").open) clear();
  });
  return { attempt, clear, say: (words) => tell(status, words) };
}

// Pictures are drawn at the width they are shown in, so that letters keep their size; again when it changes.
const drawings = new Map();
export function drawn(owner, draw) {
  drawings.set(owner, draw);
  draw();
}
export function undrawn(owner) {
  drawings.delete(owner);
}
export function redraw() {
  for (const draw of drawings.values()) draw();
}

// Round numbers between two ends, about so many.
export function ticks(low, high, wanted) {
  const rough = (high - low || 1) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9), final = Math.floor(high / step + 1e-9);
  return Array.from({ length: final - first + 1 }, (_, index) => (first + index) * step);
}
