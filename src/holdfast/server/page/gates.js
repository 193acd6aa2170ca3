// One gate: the line of promotions as steps upward with their margins, where the gate stands, submitting a candidate, and the
// verdicts. No scores.

import { $, call, count, drawn, element, list, number, part, session, table, tell, undrawn } from "/tools.js";

const AT_FIRST = 25, MORE = 100; // verdicts in the list
const NARROWEST = 76; // pixels of one step
const PAGE = 1000; // verdicts in one request

let page; // What the page offers: attempt(work).
let name = null;
let draw = null; // The picture that was made and is not yet on the page.

export function begin(offered) {
  page = offered;
}

export async function openGate(wanted) {
  name = wanted;
  $("gate").setAttribute("aria-label", `Gate ${wanted}`);
  $("gate-name").textContent = wanted;
  $("gate-submit-form").reset();
  tell($("gate-status"), "");
  await refresh();
}

async function refresh() {
  const gate = await call("GET", `/gates/${name}`);
  if (gate.name !== name) return; // Another gate was opened meanwhile.
  $("gate-words").textContent = gate.text;
  $("gate-terms").textContent = terms(gate);
  $("gate-submit").hidden = session.me.role === "auditor";
  undrawn("gate");
  $("gate-line").replaceChildren(...line(gate));
  if (draw !== null) drawn("gate", draw);
  draw = null;
  await showVerdicts(gate);
}

function terms(gate) {
  const promise = gate.promise === "family"
    ? `with probability ${gate.confidence} no promotion is wrong`
    : `in expectation at most ${number(1 - gate.confidence)} of the promotions are wrong`;
  const least = gate.minimum > 0 ? `; a candidate has to gain more than ${number(gate.minimum)}` : "";
  return `${count(gate.tasks)} tasks; ${promise}; margins in steps of ${number(gate.step)}${least}`;
}

// The line of promotions: a picture, and the same as a table.
function line(gate) {
  const versions = gate.versions;
  if (versions.length === 1) return [element("p", "No candidate was promoted yet.", { class: "quiet" })];
  const figure = element("figure");
  const drawing = part("svg", { role: "img", "aria-label": `Line of promotions, upward: ${versions.map((version, place) => place === 0
    ? version.name : `${version.name}, better by more than ${number(version.margin)}`).join("; then ")}.` });
  const caption = element("figcaption", "", { class: "quiet" });
  figure.append(drawing, caption);
  draw = () => drawLine(gate, drawing, caption);
  const family = gate.promise === "family";
  const heads = ["No.", "Version", "Margin", ...(family ? ["In all"] : [])];
  const rows = versions.map((version, place) => place === 0
    ? ["–", version.name, "first", ...(family ? ["–"] : [])]
    : [String(version.place), version.name, more(version.margin), ...(family ? [more(version.total)] : [])]);
  return [element("h3", "Promotions"), figure, table(`Promotions of ${gate.name}`, heads, rows.reverse())];
}

// Steps of equal width, as high as the margins add up; where there is no room for all, the newest.
function drawLine(gate, drawing, caption) {
  const width = Math.max(280, drawing.parentElement.clientWidth);
  const shown = gate.versions.slice(-Math.floor((width - 16) / NARROWEST));
  const column = Math.min(150, (width - 16) / shown.length);
  const top = 30, rise = 110, foot = 44;
  const lowest = shown[0].total, highest = shown[shown.length - 1].total;
  // A margin may be 0 ("better, but not by a full step"), and its step goes upward all the same.
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
      part("text", { ...centred, y: level + 18, class: "beside" }, isFirst ? "first" : more(version.margin)),
      ...(isFirst ? [] : [part("text", { ...centred, y: level + 34, class: "beside" }, `no. ${version.place}`)]),
    ];
  });
  drawing.replaceChildren(...parts);
  const left = gate.versions.length - shown.length;
  caption.textContent = "Each step is a promotion. Its label says which submission it was, and its margin: the version is better by more than this. " +
    (left > 0 ? `The newest ${shown.length} of ${gate.versions.length} versions. ` : "") +
    (gate.promise === "family" ? "Margins add up." : "Each margin is certified by itself; their sum is not.");
}

const more = (margin) => `>\u00a0${number(margin)}`;

async function showVerdicts(gate) {
  const place = $("gate-verdicts");
  const verdicts = [];
  for (let after = 0; ;) {
    const listed = await call("GET", `/gates/${gate.name}/verdicts?limit=${PAGE}&after=${after}`);
    if (!listed.verdicts.length) break;
    verdicts.push(...listed.verdicts);
    after = listed.after;
  }
  if (gate.name !== name) return; // Another gate was opened meanwhile.
  verdicts.reverse();
  let shown = AT_FIRST;
  const listing = element("div");
  const older = element("button", "Older verdicts", { type: "button", class: "plain" });
  const show = () => {
    const heads = ["No.", "Candidate", "Verdict", "Compared with", "Nats"];
    const rows = verdicts.slice(0, shown).map((verdict) =>
      [String(verdict.place), verdict.name, outcome(verdict), verdict.incumbent, number(verdict.cost, 3)]);
    listing.replaceChildren(table(`Verdicts of ${gate.name}`, heads, rows));
    older.hidden = verdicts.length <= shown;
  };
  older.addEventListener("click", () => {
    shown += MORE;
    show();
    if (older.hidden) listing.firstElementChild.focus();
  });
  place.replaceChildren(element("h3", "Verdicts"));
  if (!verdicts.length) {
    place.append(element("p", "Nothing was submitted yet.", { class: "quiet" }));
    return;
  }
  show();
  const assumed = element("details");
  assumed.append(element("summary", "What must be true for the newest verdict"), list(verdicts[0].assumed));
  place.append(listing, older, assumed);
}

function outcome(verdict) {
  return verdict.promoted ? `promoted ${more(verdict.margin)}` : "not promoted";
}

// Scores are a JSON object from task to score, or CSV with the columns task and score.
async function submit() {
  const file = $("gate-file").files[0], candidate = $("gate-candidate").value.trim(), status = $("gate-status");
  tell(status, "Comparing…");
  try {
    const verdict = await call("POST", `/gates/${name}/submissions`, { name: candidate, scores: readScores(file.name, await file.text()) });
    const again = verdict.repeated ? " This name was submitted before, so its first verdict stands." : "";
    tell(status, `${candidate}: ${outcome(verdict)}, ${number(verdict.cost, 3)} nats.${again}`);
    $("gate-submit-form").reset();
    await refresh();
  } catch (error) {
    tell(status, error.message, true);
  }
}

export function readScores(fileName, text) {
  if (/\.json$/i.test(fileName)) {
    let read;
    try {
      read = JSON.parse(text);
    } catch {
      throw new Error("The file is not valid JSON. Send an object from task to score, such as {\"task 1\": 1, \"task 2\": 0}.");
    }
    return read?.scores ?? read;
  }
  if (!/\.csv$/i.test(fileName)) throw new Error("Choose a file whose name ends in .json or .csv.");
  const [head, ...rows] = text.split(/\r?\n/).filter((row) => row.trim()).map(cells);
  const task = head?.indexOf("task") ?? -1, score = head?.indexOf("score") ?? -1;
  if (task < 0 || score < 0) throw new Error("The first line of the CSV file must name the columns task and score.");
  // Numbers that are none are sent as they are: the gate says what is wrong with them.
  return Object.fromEntries(rows.map((row) => [row[task], row[score] === "" || Number.isNaN(Number(row[score])) ? row[score] : Number(row[score])]));
}

// One line of CSV; texts in quotes may have commas and doubled quotes in them.
function cells(row) {
  return [...row.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => (quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"')));
}

$("gate-submit-form").addEventListener("submit", (event) => {
  event.preventDefault();
  page.attempt(submit);
});
