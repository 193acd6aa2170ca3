// The answers of an account: a picture with an interval for each, and a table, the newest first.

import { isCurve } from "/results.js";
import { $, amount, beside, call, drawn, element, halfWidth, interval, part, ticks } from "/tools.js";

const AT_FIRST = 25, MORE = 100; // rows of the table
const DRAWN = 12; // answers in the picture
const WIDE = 560; // pixels from which names stand beside the lines

let account = null; // whose answers they are
let answers = [], last = 0, shown = AT_FIRST;

export function forget(address) {
  account = address;
  answers = [];
  last = 0;
  shown = AT_FIRST;
}

export async function loadAnswers(address) {
  for (;;) {
    const after = last;
    const page = await call("GET", `/datasets/${address}/history?limit=200&after=${after}`);
    if (account !== address || last !== after) return; // Another account, or another call that was faster.
    if (!page.answers.length) break;
    answers.push(...page.answers);
    last = page.after;
  }
  show();
}

export function outcome(answer) {
  if (answer.guess === null) return "no guess";
  return answer.confirmed ? "as guessed" : "a surprise";
}

function show() {
  const newest = answers.slice(-shown).reverse();
  $("nothing").hidden = newest.length > 0;
  $("answers").hidden = newest.length === 0;
  $("more").hidden = answers.length <= shown;
  $("answers").tBodies[0].replaceChildren(...newest.map(row));
  const drawable = newest.filter((answer) => !isCurve(answer.query) && answer.low !== null && answer.high !== null).slice(0, DRAWN);
  drawn("answers", () => draw(drawable));
}

function row(answer) {
  const made = element("tr", undefined, { role: "row" });
  // The answer to a curve is how far it may be from the training part's, at any point.
  const numbers = isCurve(answer.query)
    ? ["a curve", halfWidth(answer), "–"]
    : [beside(answer.value, answer), interval(answer), guessCell(answer)];
  const cells = [element("code", answer.query), ...numbers, amount(answer.cost, answer.unit)];
  const labels = ["", "Value", "Interval", "Guess", "Cost"];
  made.append(...cells.map((cell, place) => {
    const holder = element("td", undefined, { role: "cell", "data-label": labels[place] });
    holder.append(cell);
    return holder;
  }));
  return made;
}

function guessCell(answer) {
  if (answer.guess === null) return "–";
  const made = element("span", beside(answer.guess, answer));
  if (!answer.confirmed) made.append(" ", element("span", "surprise", { class: "chip warn" }));
  return made;
}

// Answers of one scale share an axis; the picture shows those on the scale of the newest.
function draw(drawable) {
  const scale = (answer) => Math.floor(Math.log10(Math.max(Math.abs(answer.low), Math.abs(answer.high), 1e-12)));
  const same = drawable.filter((answer) => Math.abs(scale(answer) - scale(drawable[0])) <= 1);
  $("picture").hidden = same.length === 0;
  if (!same.length) return;
  const ends = same.flatMap((answer) => [answer.low, answer.high, answer.guess ?? answer.value]);
  const low = Math.min(...ends), high = Math.max(...ends), room = (high - low || 1) * 0.05;
  const width = Math.max(280, $("picture").clientWidth), narrow = width < WIDE;
  const left = narrow ? 8 : Math.round(width * 0.38), right = 10, step = narrow ? 46 : 28, drop = narrow ? 14 : 0;
  const x = (value) => left + ((value - low + room) / (high - low + 2 * room)) * (width - left - right);
  const letters = Math.floor((narrow ? width - 16 : left - 12) / 6.4);
  const foot = step * same.length + 6;
  const drawing = $("drawing");
  drawing.setAttribute("viewBox", `0 0 ${width} ${foot + 22}`);
  const parts = ticks(low, high, narrow ? 4 : 5).flatMap((mark) => [
    part("line", { class: "axis", x1: x(mark), x2: x(mark), y1: 0, y2: foot }),
    part("text", { class: "beside", x: x(mark), y: foot + 16, "text-anchor": "middle" }, String(Number(mark.toPrecision(6)))),
  ]);
  for (const [place, answer] of same.entries()) {
    const y = step * place + step / 2 + drop / 2, surprise = answer.guess !== null && !answer.confirmed;
    const name = answer.query.length > letters ? `${answer.query.slice(0, letters - 1)}…` : answer.query;
    const label = part("text", narrow ? { x: left, y: y - 12 } : { x: left - 12, y: y + 4, "text-anchor": "end" }, name);
    label.append(part("title", {}, answer.query));
    parts.push(
      label,
      ...(answer.guess === null ? [] : [part("line", { class: "guess", x1: x(answer.guess), x2: x(answer.guess), y1: y - 8, y2: y + 8 })]),
      part("line", { class: surprise ? "interval surprise" : "interval", x1: x(answer.low), x2: x(answer.high), y1: y, y2: y }),
      part("circle", { class: surprise ? "value surprise" : "value", cx: x(answer.value), cy: y, r: 4.5 }),
    );
  }
  drawing.replaceChildren(...parts);
}

$("more").addEventListener("click", () => { shown += MORE; show(); });
