// The columns of a dataset as a table that can be searched: types, and what the training rows show of each.

import { $, call, count, element, number, part, percent, session } from "/tools.js";

const AT_FIRST = 30; // rows of the table until all are wanted
const WIDTH = 120, HEIGHT = 28; // pixels of a small picture
const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/; // names that a question takes without quotes

let columns = [];
let all = false;

// An auditor sees names and types only.
export async function loadColumns(dataset, address) {
  if (session.me.role !== "auditor") return call("GET", `/datasets/${address}/columns`);
  return { columns: Object.entries(dataset.columns).map(([name, kind]) => ({ name, kind, training: null })), training_rows: 0 };
}

export function showColumns({ columns: listed, training_rows: rows }) {
  columns = listed;
  all = false;
  $("find-column").value = "";
  $("show-index").checked = false;
  const indexes = columns.filter((column) => column.index).length;
  $("index-choice").hidden = indexes === 0;
  $("index-words").textContent = indexes === 1 ? "Show the column of row numbers" : `Show ${indexes} columns of row numbers`;
  $("columns-help").textContent = rows > 0
    ? `What you see is from the ${count(rows)} training rows only. Looking is free. Choose a name to put it into the question.`
    : "There are no training rows that this token may look at.";
  show();
}

function fits(column, wanted) {
  const values = (column.training?.common ?? []).map(({ value }) => value);
  return [column.name, column.kind, ...values].some((text) => text.toLowerCase().includes(wanted));
}

function show() {
  const wanted = $("find-column").value.trim().toLowerCase();
  const candidates = columns.filter((column) => $("show-index").checked || !column.index);
  const fitting = candidates.filter((column) => fits(column, wanted));
  const shown = all ? fitting : fitting.slice(0, AT_FIRST);
  $("columns-table").hidden = shown.length === 0;
  $("columns-table").tBodies[0].replaceChildren(...shown.map(row));
  const noun = candidates.length === 1 ? "column" : "columns";
  $("columns-count").textContent = wanted ? `${count(fitting.length)} of ${count(candidates.length)} ${noun}` : `${count(candidates.length)} ${noun}`;
  $("all-columns").hidden = shown.length === fitting.length;
  $("all-columns").textContent = `Show all ${count(fitting.length)}`;
}

function row(column) {
  const made = element("tr", undefined, { role: "row" });
  const name = element("button", column.name, { type: "button", class: "name", "aria-label": `Put ${column.name} into the question` });
  name.addEventListener("click", () => insert(column.name));
  const words = element("span", shownBy(column));
  const cells = [session.me.role === "auditor" ? column.name : name, column.kind, words, picture(column)];
  const labels = ["Column", "Type", "Training rows", ""];
  made.append(...cells.map((cell, place) => {
    const holder = element("td", undefined, { role: "cell", "data-label": labels[place] });
    holder.append(cell);
    return holder;
  }));
  return made;
}

// At the place of the cursor, in quotes where the name needs them.
function insert(name) {
  const field = $("question"), text = PLAIN.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
  field.focus();
  field.setRangeText(text, field.selectionStart ?? field.value.length, field.selectionEnd ?? field.value.length, "end");
  field.dispatchEvent(new Event("input"));
}

function shownBy({ kind, training }) {
  if (training === null) return "–";
  if (training.missing === 1) return "always missing";
  const missing = training.missing > 0 ? `; ${percent(training.missing)} missing` : "";
  if (kind === "number" && training.least === training.most) return `always ${number(training.least)}${missing}`;
  if (kind === "number") return `${number(training.least)} to ${number(training.most)}, median ${number(training.median)}${missing}`;
  if (kind === "date") return `${day(training.least)} to ${day(training.most)}${missing}`;
  if (!training.common) return missing.slice(2) || "–";
  const often = training.common.filter(({ share }) => share >= 0.02).slice(0, 3).map(({ value, share }) => `${shorter(value)} ${percent(share)}`);
  const values = kind === "boolean" ? "" : training.different === 1 ? "1 value" : `${count(training.different)} values`;
  return [values, often.join(", ")].filter(Boolean).join(": ") + missing;
}

const day = (time) => time.replace(/[T ]00:00:00(\.0+)?$/, "");
const shorter = (text) => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

// Bars for numbers and dates, one divided bar for values. The words beside it say the same.
function picture({ training }) {
  const drawing = part("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", width: WIDTH, height: HEIGHT });
  const bins = training?.bins ?? [];
  if (bins.length) {
    const step = WIDTH / bins.length, highest = Math.max(...bins);
    drawing.append(...bins.map((share, place) => {
      const height = share > 0 ? Math.max(1.5, (HEIGHT - 2) * share / highest) : 0;
      return part("rect", { class: "bar", x: place * step + 0.5, width: Math.max(0.5, step - 1), y: HEIGHT - 1 - height, height });
    }), part("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));
  } else if (training?.common) {
    let start = 0;
    drawing.append(part("rect", { class: "rest", x: 0, y: 9, width: WIDTH, height: 10, rx: 2 }));
    training.common.forEach(({ share }, place) => {
      drawing.append(part("rect", { class: place % 2 ? "piece even" : "piece", x: start, y: 9, width: Math.max(0.5, WIDTH * share - 1), height: 10 }));
      start += WIDTH * share;
    });
  }
  return drawing;
}

$("find-column").addEventListener("input", () => { all = false; show(); });
$("show-index").addEventListener("change", show);
$("all-columns").addEventListener("click", () => { all = true; show(); $("find-column").focus(); });
