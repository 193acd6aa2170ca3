// The page: signs in with a token, shows what is left, previews and asks, draws the answers. No framework, no build.

import { showBoards } from "/boards.js";
import { redraw, showGates } from "/gates.js";
import * as results from "/results.js";

const $ = (id) => document.getElementById(id);
const state = { token: sessionStorage.getItem("holdfast-token"), dataset: null, epoch: null, answers: [], last: 0 };

class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? "Something went wrong.");
    this.problem = problem;
  }
}

// A body is sent as JSON, or as it is if it has a kind of its own.
async function call(method, path, body, kind) {
  let response;
  try {
    response = await fetch(`/v1${path}`, {
      method,
      headers: { "X-Holdfast": "page", ...(state.token && { Authorization: `Bearer ${state.token}` }), ...(body && { "Content-Type": kind ?? "application/json" }) },
      body: kind ? body : body && JSON.stringify(body),
    });
  } catch {
    throw new Refused({ detail: "The service does not answer. Try again." });
  }
  const said = response.status === 204 ? null : await response.json();
  if (response.status === 401) signOut();
  if (!response.ok) throw new Refused(said);
  return said;
}

// Everything from the service is put in as text, never as markup.
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const number = (value, digits = 4) => (value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toString());

// The account counts nats, or answers where their number is agreed on.
function amount(value, unit) {
  const digits = unit === "answers" ? Math.round(value).toLocaleString("en") : number(value, 3);
  return `${digits} ${digits === "1" ? unit.slice(0, -1) : unit}`;
}

function shareWords(dataset) {
  if (dataset.share_left === null) return "";
  return ` (left of your share: ${amount(dataset.share_left, dataset.share_unit)})`;
}

function outcome(answer) {
  if (answer.guess === null) return "no guess";
  return answer.confirmed ? "as guessed" : "a surprise";
}

const halfWidth = (band) => `±${number((band.high - band.low) / 2, 3)}`;

function interval(answer) {
  const low = answer.low === null ? "−∞" : number(answer.low);
  const high = answer.high === null ? "∞" : number(answer.high);
  return `[${low}, ${high}]`;
}

// people@1 is an epoch of people; people alone is the newest one, whichever that is.
const tableOf = (address) => address?.split("@")[0];

function notice(error) {
  $("notice").hidden = !error;
  $("notice").textContent = error ? error.message : "";
}

function signOut() {
  sessionStorage.removeItem("holdfast-token");
  state.token = null;
  state.dataset = null;
  for (const id of ["work", "person", "sign-out", "dataset", "board-list", "gate-list", "only-submits"]) $(id).hidden = true;
  $("sign-in").hidden = false;
  $("token").focus();
}

async function signIn() {
  const me = await call("GET", "/me");
  if (state.token) sessionStorage.setItem("holdfast-token", state.token);
  $("person").textContent = me.team ? `${me.name} (${me.team}), ${me.role}` : `${me.name}, ${me.role}`;
  $("key").textContent = (await call("GET", "/key")).key;
  $("sign-in").hidden = true;
  for (const id of ["person", "sign-out"]) $(id).hidden = false;
  state.role = me.role;
  $("only-submits").hidden = me.role !== "submitter";
  $("work").hidden = me.role === "submitter";
  if (me.role === "submitter") return;
  // A participant has no business with datasets.
  $("datasets").hidden = me.role === "participant";
  if (me.role !== "participant") await showDatasets();
  await showBoards({ call, element, number, interval, attempt, me: { ...me, account: `${me.team}/${me.name}` } });
  await showGates({ call, element, number });
}

async function showDatasets() {
  const found = await call("GET", "/datasets");
  $("datasets").replaceChildren(
    ...found.map((dataset) => {
      const button = element("button", dataset.name, { type: "button", "data-name": dataset.name });
      button.append(element("small", dataset.broken ? "cannot be opened" : dataset.closed ? "closed" : dataset.words));
      button.disabled = Boolean(dataset.broken);
      if (dataset.broken) button.title = dataset.broken;
      button.setAttribute("aria-current", String(dataset.name === tableOf(state.dataset)));
      button.addEventListener("click", () => attempt(() => open(dataset.name)));
      return button;
    }),
  );
  if (!found.length) $("datasets").append(element("p", "This token reaches no dataset.", { class: "quiet" }));
  const first = found.find((dataset) => !dataset.broken);
  if (first && !state.dataset) await open(first.name);
}

async function open(name) {
  Object.assign(state, { dataset: name, epoch: null, answers: [], last: 0 });
  for (const button of $("datasets").querySelectorAll("button")) {
    button.setAttribute("aria-current", String(button.dataset.name === tableOf(name)));
  }
  $("dataset-name").textContent = tableOf(name);
  $("verified").textContent = "";
  $("preview").textContent = "";
  results.clear();
  $("ask").hidden = state.role === "auditor";
  $("dataset").hidden = false;
  await refresh();
  const certificate = await call("GET", `/datasets/${name}/certificate`);
  $("certificate").replaceChildren(
    element("p", certificate.statement),
    element("p", `Theorem: ${certificate.theorem}.`, { class: "quiet" }),
    element("p", "Assumed, because no software can check it from the data:"),
    list(certificate.assumed),
    element("p", "Checked by the software:"),
    list(certificate.checked),
  );
}

function list(sentences) {
  const made = element("ul");
  made.append(...sentences.map((sentence) => element("li", sentence)));
  return made;
}

function showEpochs(dataset) {
  const newest = dataset.epochs.length;
  $("epochs").hidden = newest < 2;
  $("epochs").replaceChildren(
    ...dataset.epochs.map((epoch) => {
      const button = element("button", `Epoch ${epoch.epoch}`, { type: "button" });
      button.append(element("small", epoch.closed ? "closed" : epoch.epoch === newest ? "newest" : "open"));
      button.setAttribute("aria-current", String(epoch.epoch === dataset.epoch.number));
      const address = epoch.epoch === newest ? tableOf(dataset.name) : epoch.address;
      button.addEventListener("click", () => attempt(() => open(address)));
      return button;
    }),
  );
}

function epochWords(dataset) {
  const { number: place, together } = dataset.epoch;
  const since = dataset.epochs[place - 1].since;
  const day = since === null ? "" : `, since ${new Date(1000 * since).toISOString().slice(0, 10)}`;
  return `${place} of ${dataset.epochs.length}${day}, with an account of its own; ` +
    `epochs 1 to ${place} hold together with confidence ${number(together)}`;
}

async function refresh() {
  const dataset = await call("GET", `/datasets/${state.dataset}`);
  if (state.epoch !== null && state.epoch !== dataset.epoch.number) {
    await open(state.dataset); // A new epoch was opened meanwhile: its answers and certificate are its own.
    return;
  }
  state.epoch = dataset.epoch.number;
  const facts = [
    ["Protected rows", dataset.rows.toLocaleString("en")],
    ["Columns", Object.entries(dataset.columns).map(([name, kind]) => `${name} (${kind})`).join(", ")],
    ["Promise", promiseWords(dataset)],
    ["Spent", `${amount(dataset.spent, dataset.unit)}${shareWords(dataset)}`],
    ...(dataset.epochs.length > 1 ? [["Epoch", epochWords(dataset)]] : []),
  ];
  $("held").textContent = dataset.promise === "each"
    ? `Each interval by itself holds with probability ${dataset.confidence}.`
    : "Every interval holds together with all others.";
  $("facts").replaceChildren(...facts.flatMap(([term, words]) => [element("dt", term), element("dd", words)]));
  showEpochs(dataset);
  $("meter").hidden = dataset.left === null;
  if (dataset.left !== null) {
    const part = dataset.total > 0 ? 100 * Math.max(0, 1 - dataset.left / dataset.total) : 100;
    $("meter-spent").style.width = `${part}%`;
    $("meter").setAttribute("aria-label", `${number(part, 3)} % of the account is spent`);
  }
  const left = dataset.left === null || dataset.unit !== "nats" ? "" : `${amount(dataset.left, dataset.unit)} left: `;
  $("left").textContent = dataset.closed ? "The account is closed." : left + dataset.words;
  await showReport(dataset);
  await loadAnswers();
}

function promiseWords(dataset) {
  const each = dataset.promise === "each" ? " for each interval by itself" : "";
  const width = dataset.error ? `, every interval within ±${dataset.error}` : "";
  return `confidence ${dataset.confidence}${each}${width}`;
}

// The last word: a table once it was given, and a form for whoever may give it.
async function showReport(dataset) {
  const mayGive = dataset.may_report && !dataset.closed;
  $("report").hidden = !mayGive && !dataset.reported;
  $("give-report").hidden = !mayGive;
  $("reported").hidden = !dataset.reported;
  if (!dataset.reported) return;
  const report = await call("GET", `/datasets/${state.dataset}/report`);
  $("report-rows").tBodies[0].replaceChildren(
    ...report.questions.map((question, place) => {
      const answer = report.answers[place];
      const row = element("tr");
      const words = answer ? [number(answer.value), interval(answer)] : ["could not be computed", ""];
      row.append(...[question, ...words].map((text) => element("td", text)));
      return row;
    }),
  );
  $("report-text").textContent = report.text;
}

const lastQuestions = () => $("last-questions").value.split("\n").map((line) => line.trim()).filter(Boolean);

function confirmReport(event) {
  event.preventDefault();
  const count = lastQuestions().length;
  if (!count) return;
  $("confirm-words").textContent = `This ends the account of ${state.dataset} for good, for everyone: nothing more is ` +
    `answered from it. Then ${count === 1 ? "the question is" : `the ${count} questions are`} read exactly.`;
  $("confirm").returnValue = "no";
  $("confirm").showModal();
}

async function giveReport() {
  if ($("confirm").returnValue !== "yes") return;
  await call("POST", `/datasets/${state.dataset}/report`, { questions: lastQuestions() });
  $("last-questions").value = "";
  await refresh();
  await showDatasets();
}

async function loadAnswers() {
  for (;;) {
    const page = await call("GET", `/datasets/${state.dataset}/history?limit=200&after=${state.last}`);
    if (!page.answers.length) break;
    state.answers.push(...page.answers);
    state.last = page.after;
  }
  showAnswers();
}

let shown = 25;
function showAnswers() {
  const newest = state.answers.slice(-shown).reverse();
  $("nothing").hidden = newest.length > 0;
  $("answers").hidden = $("picture").hidden = newest.length === 0;
  $("more").hidden = state.answers.length <= shown;
  $("answers").tBodies[0].replaceChildren(
    ...newest.map((answer) => {
      const row = element("tr");
      // The answer to a curve is how far it may be from the training part's, at any point.
      const numbers = results.isCurve(answer.query)
        ? ["a curve", halfWidth(answer), "–"]
        : [number(answer.value), interval(answer), number(answer.guess)];
      const words = [answer.query, ...numbers, number(answer.cost, 3)];
      row.append(...words.map((text) => element("td", text)));
      return row;
    }),
  );
  draw(newest.filter((answer) => !results.isCurve(answer.query)).slice(0, 12));
}

// Answers of one scale share an axis; the picture shows those on the scale of the newest.
function draw(answers) {
  const finite = answers.filter((answer) => answer.low !== null && answer.high !== null);
  const scale = (answer) => Math.floor(Math.log10(Math.max(Math.abs(answer.low), Math.abs(answer.high), 1e-12)));
  const same = finite.filter((answer) => Math.abs(scale(answer) - scale(finite[0])) <= 1);
  $("picture").hidden = same.length === 0;
  if (!same.length) return;
  const ends = same.flatMap((answer) => [answer.low, answer.high, answer.guess ?? answer.value]);
  const low = Math.min(...ends), high = Math.max(...ends), room = (high - low || 1) * 0.05;
  // Drawn at the width it is shown in, so that letters keep their size; on a phone names stand above the lines.
  const width = Math.max(280, $("picture").clientWidth), narrow = width < 560;
  const left = narrow ? 8 : 250, step = narrow ? 44 : 28, drop = narrow ? 14 : 0;
  const x = (value) => left + ((value - low + room) / (high - low + 2 * room)) * (width - left - 16);
  const drawing = $("drawing");
  drawing.setAttribute("viewBox", `0 0 ${width} ${step * same.length + 34}`);
  const svg = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const parts = same.flatMap((answer, place) => {
    const y = step * place + step / 2 + drop / 2;
    const name = answer.query.length > 38 ? `${answer.query.slice(0, 37)}…` : answer.query;
    const label = narrow ? { x: left, y: y - 12 } : { x: left - 10, y: y + 4, "text-anchor": "end" };
    return [
      svg("text", label, name),
      svg("line", { class: "axis", x1: left, x2: width - 16, y1: y, y2: y }),
      ...(answer.guess === null ? [] : [svg("line", { class: "guess", x1: x(answer.guess), x2: x(answer.guess), y1: y - 8, y2: y + 8 })]),
      svg("line", { class: "interval", x1: x(answer.low), x2: x(answer.high), y1: y, y2: y }),
      svg("circle", { class: "value", cx: x(answer.value), cy: y, r: 5 }),
    ];
  });
  const foot = step * same.length + 20;
  parts.push(svg("text", { x: x(low), y: foot }, number(low)), svg("text", { x: x(high), y: foot, "text-anchor": "end" }, number(high)));
  drawing.replaceChildren(...parts);
}

let waiting = null;
let latest = 0;
function previewSoon() {
  clearTimeout(waiting);
  const question = $("question").value.trim();
  if (!question) {
    $("preview").textContent = "";
    return;
  }
  waiting = setTimeout(async () => {
    const turn = ++latest;
    let words;
    try {
      const found = await call("POST", `/datasets/${state.dataset}/preview`, { query: question });
      if (results.isCurve(question) && found.allowed) words = curvePrice(found);
      else if (found.known) words = `Answered before, in ${interval(found)}: costs nothing.`;
      else if (!found.allowed) words = `This would be refused, and nothing charged. ${found.why}`;
      else if (found.guess === null) {
        const width = found.low === null || found.high === null ? "Unknown width" : `About ±${number((found.high - found.low) / 2, 3)}`;
        words = `${width} for ${amount(found.at_most, found.unit)}. ${found.why}`;
      } else {
        words = `Guess ${number(found.guess)}. If the rows agree: ${interval(found)} for ${amount(found.if_confirmed, found.unit)}; ` +
          `a surprise from ${amount(found.if_surprised, found.unit)}, at most ${number(found.at_most, 3)}. ${found.why}`;
      }
      if (found.failure_closes) words += " If it fails on the protected rows, the account is closed.";
    } catch (error) {
      words = results.isTable(question) && / is a table, /.test(error.message) ? tablePrice(question) : error.message;
    }
    if (turn === latest) $("preview").textContent = words;
  }, 350);
}

function curvePrice(preview) {
  if (preview.known) return `Answered before, within ${halfWidth(preview)} at every point: costs nothing.`;
  return `A curve within ${halfWidth(preview)} at every point for ${amount(preview.if_confirmed, preview.unit)} if the rows ` +
    `agree with the training part; a surprise from ${amount(preview.if_surprised, preview.unit)}, at most ${number(preview.at_most, 3)}.`;
}

function tablePrice(question) {
  return results.isHistogram(question)
    ? "A histogram is read off cdf(…) of the same expression. It costs what that costs, and nothing if that was asked before."
    : "A table asks one question for each value, all together. Those that were asked before cost nothing.";
}

async function ask(event) {
  event.preventDefault();
  clearTimeout(waiting);
  latest += 1; // A preview that is still on its way comes too late.
  const button = $("ask").querySelector("button");
  button.disabled = true;
  results.clear();
  try {
    const query = $("question").value.trim();
    if (results.isCurve(query)) {
      const curve = await call("POST", `/datasets/${state.dataset}/curves`, { query });
      const { answer } = curve;
      $("preview").textContent = `${answer.query}: the share of rows up to each of ${curve.points.length} points, within ` +
        `${halfWidth(answer)} at every point (${amount(answer.cost, answer.unit)}).`;
      results.showCurve({ element, number, interval }, curve);
    } else if (results.isTable(query)) {
      const table = await call("POST", `/datasets/${state.dataset}/tables`, { query });
      const answered = table.rows.filter((row) => row.answer).length;
      $("preview").textContent = `${table.query}: ${answered} of ${table.rows.length} rows have an answer.`;
      results.showTable({ element, number, interval }, table);
    } else {
      const answer = await call("POST", `/datasets/${state.dataset}/questions`, { query });
      $("preview").textContent = `${answer.query} = ${number(answer.value)} in ${interval(answer)} ` +
        `(${outcome(answer)}; ${amount(answer.cost, answer.unit)}).`;
    }
    await refresh();
    await showDatasets();
  } finally {
    button.disabled = false;
    $("question").focus();
  }
}

async function verify() {
  $("verified").textContent = "Checking…";
  const found = await call("GET", `/datasets/${state.dataset}/verify`);
  $("verified").className = found.whole ? "good" : "bad";
  $("verified").textContent = found.whole
    ? `Whole: ${found.lines.toLocaleString("en")} lines, ${amount(found.spent, found.unit)}, signed.`
    : found.problems.map((problem) => `${problem.kind} at line ${problem.line}: ${problem.words}`).join("; ");
}

async function attempt(work) {
  notice(null);
  try {
    await work();
  } catch (error) {
    notice(error);
  }
}

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $("token").value.trim();
  $("token").value = "";
  attempt(signIn);
});
$("sign-out").addEventListener("click", () => attempt(async () => {
  if (!state.token) await call("POST", "/sign-out");
  signOut();
}));
$("question").addEventListener("input", previewSoon);
$("ask").addEventListener("submit", (event) => attempt(() => ask(event)));
$("give-report").addEventListener("submit", confirmReport);
$("confirm").addEventListener("close", () => attempt(giveReport));
$("verify").addEventListener("click", () => attempt(verify));
window.addEventListener("resize", () => {
  if (state.answers.length) showAnswers();
  redraw();
  results.redraw();
});
$("more").addEventListener("click", () => { shown += 100; showAnswers(); });
// Whoever came back from the provider has a session, and no token.
async function begin() {
  if (state.token) return attempt(signIn);
  const ways = await call("GET", "/sign-in");
  $("provider").hidden = !ways.provider;
  if (ways.provider) await signIn().catch(() => {});
}
begin();
