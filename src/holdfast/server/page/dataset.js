// One dataset: its account and its epochs, previews, questions, the report, the certificate and the book.

import { forget, loadAnswers, outcome } from "/answers.js";
import { loadColumns, showColumns } from "/columns.js";
import { begin as beginOwner, openOwner, showOwner } from "/owner.js";
import { giveReport, showReport } from "/report.js";
import * as results from "/results.js";
import { $, amount, beside, call, confirmed, count, element, halfWidth, interval, list, newKey, number, ownsDataset, session, tell } from "/tools.js";

const PAUSE = 350; // milliseconds without a key until a preview is asked for

// people@1 is an epoch of people; people alone is the newest one, whichever that is.
export const tableOf = (address) => address.split("@")[0];

let page; // What the page offers: attempt(work), go(kind, name) and listAgain().
let address = null, epoch = null;
let waiting = null, latest = 0; // the timer of the next preview, and the number of the last one

export function begin(offered) {
  page = offered;
  beginOwner(offered, refresh);
}

export async function openDataset(wanted) {
  address = wanted;
  epoch = null;
  latest += 1; // A preview that is still on its way is about something else.
  forget(wanted);
  $("dataset-name").textContent = tableOf(wanted);
  for (const id of ["verified", "epoch-status"]) $(id).textContent = "";
  $("question").value = "";
  showPreview("");
  results.clear();
  clearOutcome();
  $("ask").hidden = session.me.role === "auditor";
  openOwner(wanted);
  const dataset = await refresh();
  if (address !== wanted || dataset === null) return; // Something else was opened meanwhile.
  const [columns, certificate] = await Promise.all([loadColumns(dataset, wanted), call("GET", `/datasets/${wanted}/certificate`)]);
  if (address !== wanted) return;
  showColumns(columns);
  showCertificate(certificate);
}

function showCertificate(certificate) {
  $("statement").textContent = certificate.statement;
  $("certificate-more").replaceChildren(
    element("h4", "Assumed, because no software can check it from the data"),
    list(certificate.assumed),
    element("h4", "Checked by the software"),
    list(certificate.checked),
    element("p", `Theorem: ${certificate.theorem}.`, { class: "quiet long" }),
  );
}

function showEpochs(dataset) {
  const newest = dataset.epochs.length;
  $("epochs").hidden = newest < 2;
  $("epochs").replaceChildren(
    ...dataset.epochs.map((one) => {
      const button = element("button", `Epoch ${one.epoch}`, { type: "button", class: "tab" });
      button.append(element("small", one.closed ? "closed" : one.epoch === newest ? "newest" : "open"));
      button.setAttribute("aria-current", String(one.epoch === dataset.epoch.number));
      button.addEventListener("click", () => page.go("dataset", one.epoch === newest ? tableOf(dataset.name) : one.address));
      return button;
    }),
  );
  const last = dataset.epoch.number === newest;
  $("new-epoch").hidden = !ownsDataset(tableOf(dataset.name)) || !last;
}

function epochWords(dataset) {
  const { number: place, together } = dataset.epoch;
  const since = dataset.epochs[place - 1].since;
  const day = since === null ? "" : `, since ${new Date(1000 * since).toISOString().slice(0, 10)}`;
  return `${place} of ${dataset.epochs.length}${day}, with an account of its own; ` +
    `epochs 1 to ${place} hold together with confidence ${number(together)}`;
}

function promiseWords(dataset) {
  const each = dataset.promise === "each" ? " for each interval by itself" : "";
  const width = dataset.error ? `, every interval within ±${dataset.error}` : "";
  return `confidence ${dataset.confidence}${each}${width}`;
}

// The state of the account as it is now; null where another dataset or epoch was opened meanwhile.
async function refresh() {
  const asked = address;
  const dataset = await call("GET", `/datasets/${asked}`);
  if (address !== asked) return null;
  if (epoch !== null && epoch !== dataset.epoch.number) {
    await openDataset(address); // A new epoch was opened meanwhile: its answers and certificate are its own.
    return null;
  }
  epoch = dataset.epoch.number;
  const share = dataset.share_left === null ? [] : [["Left of your share", amount(dataset.share_left, dataset.share_unit)]];
  const facts = [
    ["Protected rows", count(dataset.rows)],
    ["Promise", promiseWords(dataset)],
    ["Spent", amount(dataset.spent, dataset.unit)],
    ...share,
    ...(dataset.epochs.length > 1 ? [["Epoch", epochWords(dataset)]] : []),
  ];
  $("facts").replaceChildren(...facts.map(([term, words]) => {
    const fact = element("div");
    fact.append(element("dt", term), element("dd", words));
    return fact;
  }));
  $("held").textContent = dataset.promise === "each"
    ? `Each interval by itself holds with probability ${dataset.confidence}.`
    : `With probability ${dataset.confidence} all intervals of the account hold.`;
  showEpochs(dataset);
  showLeft(dataset);
  showOwner(dataset);
  await showReport(dataset, asked, () => address === asked);
  await loadAnswers(asked);
  return dataset;
}

function showLeft(dataset) {
  $("meter").hidden = dataset.left === null || dataset.closed;
  if (dataset.left !== null) {
    const spent = dataset.total > 0 ? 100 * Math.max(0, 1 - dataset.left / dataset.total) : 100;
    $("meter-spent").style.width = `${spent}%`;
    $("meter").setAttribute("aria-label", `${number(spent, 3)} % of the account is spent`);
  }
  const left = dataset.left === null || dataset.unit !== "nats" ? "" : `${amount(dataset.left, dataset.unit)} left: `;
  $("left").textContent = dataset.closed ? "The account is closed." : left + dataset.words;
  $("closed").hidden = !dataset.closed;
  for (const control of $("ask").elements) control.disabled = dataset.closed;
}

function showPreview(words, refused = false) {
  $("preview").className = refused ? "refused" : "";
  $("preview").textContent = words;
}

function previewSoon() {
  clearTimeout(waiting);
  clearOutcome();
  const question = $("question").value.trim();
  if (!question) {
    latest += 1;
    showPreview("");
    return;
  }
  waiting = setTimeout(async () => {
    const turn = ++latest;
    let words, refused = false;
    try {
      const preview = await call("POST", `/datasets/${address}/preview`, { query: question });
      refused = !preview.known && !preview.allowed;
      words = previewWords(question, preview);
    } catch (error) {
      const isTable = results.isTable(question) && / is a table, /.test(error.message);
      refused = !isTable;
      words = isTable ? tablePrice(question) : error.message;
    }
    if (turn === latest) showPreview(words, refused);
  }, PAUSE);
}

function previewWords(question, preview) {
  const closes = preview.failure_closes ? " If it fails on the protected rows, the account is closed." : "";
  if (!preview.known && !preview.allowed) return `This would be refused, and nothing charged. ${preview.why}`;
  if (results.isCurve(question)) return curvePrice(preview) + closes;
  if (preview.known) return `Answered before, in ${interval(preview)}: costs nothing.`;
  if (preview.guess === null) {
    const width = preview.low === null || preview.high === null ? "Unknown width" : `About ${halfWidth(preview)}`;
    return `${width} for ${amount(preview.at_most, preview.unit)}. ${preview.why}${closes}`;
  }
  return `Guess ${beside(preview.guess, preview)}. If the rows agree: ${interval(preview)} for ${amount(preview.if_confirmed, preview.unit)}; ` +
    `a surprise from ${amount(preview.if_surprised, preview.unit)}, at most ${number(preview.at_most, 3)}. ${preview.why}${closes}`;
}

function curvePrice(preview) {
  if (preview.known) return `Answered before, within ${halfWidth(preview)} at every point: costs nothing.`;
  return `A curve within ${halfWidth(preview)} at every point for ${amount(preview.if_confirmed, preview.unit)} if the rows ` +
    `agree with the training part; a surprise from ${amount(preview.if_surprised, preview.unit)}, at most ${number(preview.at_most, 3)}.`;
}

function tablePrice(question) {
  return results.isHistogram(question)
    ? "A histogram is computed from cdf(…) of the same expression. It costs the same, and nothing if the cdf was asked before."
    : "A table asks one question for each value, all together. Questions that were asked before cost nothing.";
}

function clearOutcome() {
  $("refusal").hidden = true;
  $("refusal-words").textContent = "";
  $("answer").hidden = true;
  $("answer").replaceChildren();
}

function showAnswer(...lines) {
  $("answer").hidden = false;
  $("answer").replaceChildren(...lines);
}

function showOutcome(answer) {
  const value = element("p", undefined, { class: "value" });
  value.append(element("strong", beside(answer.value, answer)), ` in ${interval(answer)}`);
  const surprise = answer.guess !== null && !answer.confirmed;
  const facts = element("p", undefined, { class: "quiet" });
  facts.append(element("span", outcome(answer), surprise ? { class: "chip warn" } : { class: "chip" }), ` ${halfWidth(answer)}, ${amount(answer.cost, answer.unit)}`);
  showAnswer(element("code", answer.query, { class: "long" }), value, facts, ...(answer.notes ?? []).map((note) => element("p", note, { class: "quiet" })));
}

const REFUSED = { "budget-spent": "Refused", "account-closed": "Refused", "too-many-questions": "Too many questions", "question-rejected": "Not a question this table can answer" };

function showRefusal(error) {
  const kind = (error.problem?.type ?? "").split(":").pop();
  $("refusal-title").textContent = REFUSED[kind] ?? "No answer";
  $("refusal-words").textContent = error.message;
  $("refusal").hidden = false;
}

async function ask(event) {
  event.preventDefault();
  clearTimeout(waiting);
  latest += 1; // A preview that is still on its way comes too late.
  const button = $("ask-button"), query = $("question").value.trim();
  button.disabled = true;
  results.clear();
  clearOutcome();
  showPreview("Asking…");
  try {
    await askNow(query);
    showPreview("");
  } catch (error) {
    showPreview("");
    showRefusal(error);
    if (error.problem === undefined) throw error;
  } finally {
    button.disabled = false;
  }
  if (session.me === null) return; // Signed out meanwhile.
  await refresh();
  await page.listAgain();
  $("question").focus();
}

async function askNow(query) {
  if (results.isCurve(query)) {
    const curve = await call("POST", `/datasets/${address}/curves`, { query });
    const { answer } = curve;
    showAnswer(element("p", `The share of rows up to each of ${curve.points.length} points, within ` +
      `${halfWidth(answer)} at every point (${amount(answer.cost, answer.unit)}).`));
    results.showCurve(curve);
  } else if (results.isTable(query)) {
    const reply = await call("POST", `/datasets/${address}/tables`, { query });
    const answered = reply.rows.filter((row) => row.answer).length;
    showAnswer(element("p", `${answered} of ${reply.rows.length} rows ${answered === 1 ? "has" : "have"} an answer.`));
    results.showTable(reply);
  } else {
    showOutcome(await call("POST", `/datasets/${address}/questions`, { query }));
  }
}

async function verify() {
  $("verified").className = "";
  $("verified").textContent = "Checking…";
  const checked = await call("GET", `/datasets/${address}/verify`);
  $("verified").className = checked.whole ? "good" : "bad";
  $("verified").textContent = checked.whole
    ? `Intact: ${count(checked.lines)} lines, ${amount(checked.spent, checked.unit)}, signed.`
    : checked.problems.map((problem) => `${problem.kind} at line ${problem.line}: ${problem.words}`).join("; ");
}

// A key for each file: whoever sends the same form twice opens one epoch.
let epochKey = null, keyedSource = null;

async function openEpoch() {
  const source = $("epoch-source").value.trim(), status = $("epoch-status");
  const words = `This opens a new epoch of ${tableOf(address)} for the rows in ${source}, with an account of its own. It cannot be ` +
    "taken back. From then on questions are about the new rows; earlier epochs stay as they are.";
  if (!(await confirmed(words, "Open the epoch"))) return;
  if (keyedSource !== source) [epochKey, keyedSource] = [newKey(), source];
  try {
    await call("POST", `/datasets/${tableOf(address)}/epochs`, { source }, { key: epochKey });
  } catch (error) {
    tell(status, error.message, true);
    return;
  }
  $("epoch-source").value = "";
  await page.listAgain();
  await page.go("dataset", tableOf(address));
  tell(status, "The epoch is open.");
}

$("question").addEventListener("input", previewSoon);
$("ask").addEventListener("submit", (event) => page.attempt(() => ask(event)));
$("refusal-close").addEventListener("click", () => { clearOutcome(); $("question").focus(); });
$("give-report").addEventListener("submit", (event) => {
  event.preventDefault();
  page.attempt(async () => {
    if (!(await giveReport(address))) return;
    await refresh();
    await page.listAgain();
  });
});
$("new-epoch-form").addEventListener("submit", (event) => {
  event.preventDefault();
  page.attempt(openEpoch);
});
$("verify").addEventListener("click", () => page.attempt(verify));
