// One board: the final, the standing, uploading predictions, one's own submissions and finalists, and what an owner decides.

import { $, beside, call, confirmed, element, interval, number, session, table, tell } from "/tools.js";

const KINDS = { csv: "text/csv", parquet: "application/vnd.apache.parquet", json: "application/json" };
const SHOWN = 100; // of all submissions the newest so many are listed

let page; // What the page offers: attempt(work).
let name = null;

export function begin(offered) {
  page = offered;
}

const maySubmit = () => session.me.role !== "auditor";
const seesAll = () => ["owner", "auditor"].includes(session.me.role);
const account = () => `${session.me.team}/${session.me.name}`;

export async function openBoard(wanted) {
  name = wanted;
  $("board").setAttribute("aria-label", `Board ${wanted}`);
  $("board-name").textContent = wanted;
  $("board-file").value = "";
  tell($("board-status"), "");
  await refresh();
}

async function refresh() {
  const wanted = name;
  const [board, listed] = await Promise.all([
    call("GET", `/boards/${wanted}`),
    call("GET", `/boards/${wanted}/submissions?newest=true&limit=${SHOWN}`),
  ]);
  if (board.name !== name) return; // Another board was opened meanwhile.
  $("board-words").textContent = `${board.words[0].toUpperCase()}${board.words.slice(1)}.`;
  $("board-final").replaceChildren(...finalParts(board));
  $("board-standing").replaceChildren(
    element("h3", "Standing"),
    board.standing.length
      ? table("Standing", ["Place", "Who", ...scoreHeads(board)], board.standing.map((entry, place) =>
        [String(place + 1), entry.by, ...scoreCells(board, { ...entry, better: true })]))
      : element("p", "No submission has beaten the start yet.", { class: "quiet" }),
  );
  $("board-upload").hidden = !maySubmit() || board.final !== null;
  const owns = session.me.role === "owner" && board.final === null;
  $("board-owner").hidden = !owns || (!board.blind && board.sealed_rows === 0);
  $("board-unblind").hidden = !board.blind;
  $("board-hold-final").hidden = board.blind || board.sealed_rows === 0;
  showSubmissions(board, listed);
}

function finalParts(board) {
  if (board.final === null) return [];
  const rows = board.final.map((entry, place) => [String(place + 1), entry.by, beside(entry.value, entry), interval(entry), shortKey(entry)]);
  return [
    element("h3", "Final"),
    table("Final scores on the sealed rows", ["Place", "Who", "Score", "Interval", "Submission"], rows),
    element("p", `With probability ${board.confidence} all intervals of the final hold.`, { class: "quiet" }),
  ];
}

function showSubmissions(board, listed) {
  const all = seesAll();
  const chooses = board.final === null && board.sealed_rows > 0 && maySubmit();
  const heads = ["Finalist", "Submission", ...(all ? ["Who"] : []), "Told", ...scoreHeads(board), "Nats"];
  const rows = listed.map((entry) => [
    chooses && entry.by === account() ? finalistBox(board, entry) : entry.finalist ? "yes" : "",
    shortKey(entry),
    ...(all ? [entry.by] : []),
    toldWords(entry),
    ...(entry.blind ? ["–", "–"] : scoreCells(board, entry)),
    entry.blind ? "–" : number(entry.cost, 3),
  ]);
  $("board-submissions").replaceChildren(
    element("h3", all ? "Submissions" : "Your submissions"),
    rows.length ? table(all ? "Submissions" : "Your submissions", heads, rows)
      : element("p", "Nothing was submitted yet.", { class: "quiet" }),
  );
  if (chooses && rows.length) {
    $("board-submissions").append(element("p", `Tick up to ${board.most_finalists} of your own submissions for the final. If you tick none, ` +
      "your best one is in it.", { class: "quiet" }));
  }
  if (listed.length === SHOWN) $("board-submissions").append(element("p", `The newest ${SHOWN} are listed.`, { class: "quiet" }));
}

// Row by row, what is shown is how much better a submission is at least, and so what score it reaches.
const paired = (board) => board.compare === "paired";
const side = (board) => (board.upward ? "above" : "below");
const scoreHeads = (board) => (paired(board) ? [`Score ${side(board)}`, "Gain above"] : ["Score", "Interval"]);

function scoreCells(board, entry) {
  const value = entry.better ? number(entry.value) : "–";
  return [value, paired(board) ? number(entry.margin) : interval(entry)];
}

function toldWords(entry) {
  if (entry.blind) return "waits for the end of the blind phase";
  if (!entry.better) return entry.compared_with === null ? "not better" : "not shown to be better";
  const steps = `${entry.steps} ${entry.steps === 1 ? "step" : "steps"}`;
  return entry.margin === null ? `better by ${steps}` : `better by more than ${steps}`;
}

const shortKey = (entry) => entry.key.slice(0, 8);

function finalistBox(board, entry) {
  const box = element("input", undefined, { type: "checkbox", "aria-label": `Finalist ${shortKey(entry)}` });
  box.checked = entry.finalist;
  box.addEventListener("change", () => page.attempt(async () => {
    try {
      const { finalists } = await call("GET", `/boards/${board.name}/finalists`);
      const others = finalists.filter((key) => key !== entry.key);
      await call("PUT", `/boards/${board.name}/finalists`, { submissions: box.checked ? [...others, entry.key] : others });
      entry.finalist = box.checked;
      tell($("board-status"), box.checked ? `${shortKey(entry)} is one of your finalists.` : `${shortKey(entry)} is not a finalist any more.`);
    } catch (error) {
      box.checked = entry.finalist;
      tell($("board-status"), error.message, true);
    }
  }));
  return box;
}

async function upload() {
  const file = $("board-file").files[0], button = $("board-submit"), status = $("board-status");
  const kind = KINDS[file?.name.split(".").pop().toLowerCase()];
  if (!kind) {
    tell(status, "Choose a file whose name ends in .csv, .parquet or .json.", true);
    return;
  }
  button.disabled = true;
  tell(status, "Scoring…");
  try {
    const board = await call("GET", `/boards/${name}`);
    tell(status, outcome(board, await call("POST", `/boards/${name}/submissions`, await content(file), { kind })));
    await refresh();
  } catch (error) {
    tell(status, error.message, true);
  } finally {
    button.disabled = false;
    button.focus();
  }
}

async function content(file) {
  try {
    return await file.arrayBuffer();
  } catch {
    throw new Error("The file could not be read. Choose it again.");
  }
}

function outcome(board, entry) {
  if (entry.blind) return `Submission ${shortKey(entry)} was received. It is scored when the blind phase ends.`;
  const cost = `It cost ${number(entry.cost, 3)} nats.`;
  const words = `Submission ${shortKey(entry)}: ${toldWords(entry)}`;
  if (paired(board)) return entry.better ? `${words} than the best; its score is ${side(board)} ${number(entry.value)}. ${cost}` : `${words} than the best. ${cost}`;
  if (!entry.better) return `${words} than the best by a step; its score is in ${interval(entry)}. ${cost}`;
  return `${words}, ${beside(entry.value, entry)} in ${interval(entry)}. ${cost}`;
}

// What an owner decides once: the end of the blind phase, and the final.
async function decide(words, label, work, done) {
  const status = $("board-status");
  if (!(await confirmed(words, label))) return;
  try {
    await work();
    tell(status, done);
  } catch (error) {
    tell(status, error.message, true);
  }
  await refresh();
}

$("board-upload").addEventListener("submit", (event) => {
  event.preventDefault();
  page.attempt(upload);
});
$("board-unblind").addEventListener("click", () => page.attempt(() => decide(
  `This ends the blind phase of ${name}: all waiting submissions are scored, and everyone sees the scores.`,
  "End the blind phase",
  () => call("POST", `/boards/${name}/unblind`),
  "The blind phase has ended.",
)));
$("board-hold-final").addEventListener("click", () => page.attempt(() => decide(
  `This scores the finalists of ${name} on the sealed rows, once and for good. Nothing can be submitted after it.`,
  "Hold the final",
  () => call("POST", `/boards/${name}/final`),
  "The final was held.",
)));
