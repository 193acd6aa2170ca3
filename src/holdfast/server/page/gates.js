// Gates: the line of promotions as steps upward with their margins, where the gate stands, and the verdicts. No scores.

import { table } from "/boards.js";

const SVG = "http://www.w3.org/2000/svg";
const AT_FIRST = 25, MORE = 100; // verdicts in the list
const NARROWEST = 76; // pixels of one step
const PAGE = 1000; // verdicts in one request

// Each picture is drawn again when the window has another width.
let pictures = [];

// `page` has the tools of the page (call, element, number, attempt).
export async function showGates(page) {
  const gates = await page.call("GET", "/gates");
  pictures = [];
  document.getElementById("gate-list").hidden = gates.length === 0;
  const sections = gates.map((gate) => make(page, gate));
  document.getElementById("gates").replaceChildren(...sections.map(({ section }) => section));
  redraw();
  for (const { gate, verdicts } of sections) await showVerdicts(page, gate, verdicts);
}

export function redraw() {
  for (const draw of pictures) draw();
}

function make(page, gate) {
  const { element } = page;
  const section = element("section", undefined, { class: "gate", "aria-label": `Gate ${gate.name}` });
  const verdicts = element("div");
  section.append(
    element("h3", gate.name),
    element("p", gate.text, { class: "long" }),
    element("p", terms(page, gate), { class: "quiet" }),
    ...line(page, gate),
    verdicts,
  );
  return { gate, section, verdicts };
}

function terms(page, gate) {
  const { number } = page;
  const promise = gate.promise === "family"
    ? `with probability ${gate.confidence} no promotion is wrong`
    : `in expectation at most ${number(1 - gate.confidence)} of the promotions are wrong`;
  const least = gate.minimum > 0 ? `; a candidate has to gain more than ${number(gate.minimum)}` : "";
  return `${gate.tasks.toLocaleString("en")} tasks; ${promise}; margins in steps of ${number(gate.step)}${least}`;
}

// The line of promotions: a picture, and the same as a table.
function line(page, gate) {
  const { element, number } = page;
  const versions = gate.versions;
  if (versions.length === 1) return [element("p", "No candidate was promoted yet.", { class: "quiet" })];
  const figure = element("figure");
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `Line of promotions, upward: ${versions.map((version, place) => place === 0
    ? version.name : `${version.name}, better by more than ${number(version.margin)}`).join("; then ")}.`);
  const caption = element("figcaption", "", { class: "quiet" });
  figure.append(drawing, caption);
  pictures.push(() => draw(page, gate, drawing, caption));
  const family = gate.promise === "family";
  const heads = ["No.", "Version", "Margin", ...(family ? ["In all"] : [])];
  const rows = versions.map((version, place) => place === 0
    ? ["–", version.name, "first", ...(family ? ["–"] : [])]
    : [String(version.place), version.name, more(page, version.margin), ...(family ? [more(page, version.total)] : [])]);
  return [element("h4", "Promotions"), figure, table(page, `Promotions of ${gate.name}`, heads, rows.reverse())];
}

// Steps of equal width, as high as the margins add up; where there is no room for all, the newest.
function draw(page, gate, drawing, caption) {
  const width = Math.max(280, drawing.parentElement.clientWidth);
  const shown = gate.versions.slice(-Math.floor((width - 16) / NARROWEST));
  const column = Math.min(150, (width - 16) / shown.length);
  const top = 30, rise = 110, foot = 44;
  const lowest = shown[0].total, highest = shown[shown.length - 1].total;
  // A margin may be 0 ("better, by no full step"), and its step goes upward all the same.
  const least = 8, scaled = rise - least * (shown.length - 1);
  const y = (place) => top + rise - least * place - scaled * ((shown[place].total - lowest) / (highest - lowest || 1));
  const letters = Math.floor((column - 8) / 7);
  drawing.setAttribute("viewBox", `0 0 ${width} ${top + rise + foot}`);
  const parts = shown.flatMap((version, place) => {
    const left = 8 + column * place, middle = left + column / 2, level = y(place);
    const isFirst = version.place === 0, isLast = place === shown.length - 1;
    const name = version.name.length > letters ? `${version.name.slice(0, Math.max(1, letters - 1))}…` : version.name;
    const centred = { x: middle, "text-anchor": "middle" };
    return [
      ...(place === 0 ? [] : [part("line", { class: "riser", x1: left, x2: left, y1: y(place - 1), y2: level })]),
      part("line", { class: isLast ? "tread now" : "tread", x1: left, x2: left + column, y1: level, y2: level }),
      part("text", { ...centred, y: level - 10, class: isLast ? "now" : "" }, name),
      part("text", { ...centred, y: level + 18, class: "beside" }, isFirst ? "first" : more(page, version.margin)),
      ...(isFirst ? [] : [part("text", { ...centred, y: level + 34, class: "beside" }, `no. ${version.place}`)]),
    ];
  });
  drawing.replaceChildren(...parts);
  const left = gate.versions.length - shown.length;
  caption.textContent = "Each step is a promotion: by more than how much it is better, and which submission it was. " +
    (left > 0 ? `The newest ${shown.length} of ${gate.versions.length} versions. ` : "") +
    (gate.promise === "family" ? "Margins add up." : "Each margin is certified by itself; their sum is not.");
}

const more = (page, margin) => `> ${page.number(margin)}`;

export function part(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

async function showVerdicts(page, gate, place) {
  const { call, element, number } = page;
  const verdicts = [];
  for (let after = 0; ;) {
    const listed = await call("GET", `/gates/${gate.name}/verdicts?limit=${PAGE}&after=${after}`);
    if (!listed.verdicts.length) break;
    verdicts.push(...listed.verdicts);
    after = listed.after;
  }
  verdicts.reverse();
  let shown = AT_FIRST;
  const list = element("div");
  const older = element("button", "Older verdicts", { type: "button", class: "plain" });
  const show = () => {
    const heads = ["No.", "Candidate", "Verdict", "Compared with", "Nats"];
    const rows = verdicts.slice(0, shown).map((verdict) =>
      [String(verdict.place), verdict.name, outcome(page, verdict), verdict.incumbent, number(verdict.cost, 3)]);
    list.replaceChildren(table(page, `Verdicts of ${gate.name}`, heads, rows));
    older.hidden = verdicts.length <= shown;
  };
  older.addEventListener("click", () => {
    shown += MORE;
    show();
    if (older.hidden) list.firstElementChild.focus();
  });
  place.replaceChildren(element("h4", "Verdicts"));
  if (!verdicts.length) {
    place.append(element("p", "Nothing was submitted yet.", { class: "quiet" }));
    return;
  }
  show();
  const assumed = element("details");
  const sentences = element("ul");
  sentences.append(...verdicts[0].assumed.map((sentence) => element("li", sentence)));
  assumed.append(element("summary", "What must be true for the newest verdict"), sentences);
  place.append(list, older, assumed);
}

function outcome(page, verdict) {
  return verdict.promoted ? `promoted ${more(page, verdict.margin)}` : "not promoted";
}
