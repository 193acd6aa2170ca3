// Boards: the standing, what one's own submissions were told, uploading predictions, finalists and the final.

const KINDS = { csv: "text/csv", parquet: "application/vnd.apache.parquet", json: "application/json" };
const SHOWN = 100; // of all submissions the newest so many are listed

// Each board's parts on the page, by name. A form that is in use stays while the tables around it change.
const parts = new Map();

// `page` has the tools of the page (call, element, number, interval, attempt), and who is signed in (me).
export async function showBoards(page) {
  // A board that cannot be opened has nothing to show.
  const boards = (await page.call("GET", "/boards")).filter((board) => !board.broken);
  parts.clear();
  document.getElementById("board-list").hidden = boards.length === 0;
  const sections = boards.map((board) => make(page, board));
  document.getElementById("boards").replaceChildren(...sections);
  for (const board of boards) await update(page, board);
}

async function refresh(page, name) {
  await update(page, await page.call("GET", `/boards/${name}`));
}

const maySubmit = (page) => page.me.role !== "auditor";
const seesAll = (page) => ["owner", "auditor"].includes(page.me.role);

function make(page, board) {
  const { element } = page;
  const section = element("section", undefined, { class: "board", "aria-label": `Board ${board.name}` });
  const part = {
    words: element("p", "", { class: "quiet" }),
    final: element("div"),
    standing: element("div"),
    form: element("form"),
    status: element("p", "", { role: "status", "aria-live": "polite" }),
    submissions: element("div"),
  };
  const id = `file-${board.name}`;
  const input = element("input", undefined, { id, type: "file", accept: ".csv,.parquet,.json", required: "" });
  const button = element("button", "Submit", { type: "submit" });
  part.form.append(
    element("label", "Predictions: CSV, Parquet or JSON with the columns id and prediction", { for: id }),
    input,
    button,
  );
  part.form.addEventListener("submit", (event) => {
    event.preventDefault();
    page.attempt(() => upload(page, board.name, input, button, part.status));
  });
  parts.set(board.name, part);
  section.append(element("h3", board.name), part.words, part.final, part.standing);
  if (maySubmit(page)) section.append(part.form, part.status);
  section.append(part.submissions);
  return section;
}

async function update(page, board) {
  const { call, element, number, interval } = page;
  const part = parts.get(board.name);
  part.words.textContent = board.words;
  part.final.replaceChildren(
    ...(board.final === null ? [] : [
      element("h4", "Final"),
      table(page, "Final scores on the sealed rows", ["Place", "Who", "Score", "Interval", "Submission"], board.final.map((entry, place) =>
        [String(place + 1), entry.by, number(entry.value), interval(entry), shortKey(entry)])),
      element("p", `With probability ${board.confidence} all intervals of the final hold.`, { class: "quiet" }),
    ]),
  );
  part.standing.replaceChildren(
    element("h4", "Standing"),
    board.standing.length
      ? table(page, "Standing", ["Place", "Who", ...scoreHeads(board)], board.standing.map((entry, place) =>
        [String(place + 1), entry.by, ...scoreCells(page, board, entry)]))
      : element("p", "No submission has beaten the start yet.", { class: "quiet" }),
  );
  part.form.hidden = board.final !== null;
  await showSubmissions(page, board, part, await call("GET", `/boards/${board.name}/submissions?newest=true&limit=${SHOWN}`));
}

async function showSubmissions(page, board, part, listed) {
  const { element, number } = page;
  const all = seesAll(page);
  const chooses = board.final === null && board.sealed_rows > 0 && maySubmit(page);
  const heads = ["Finalist", "Submission", ...(all ? ["Who"] : []), "Told", ...scoreHeads(board), "Nats"];
  const rows = listed.map((entry) => [
    chooses && entry.by === page.me.account ? finalistBox(page, board, part, entry) : entry.finalist ? "yes" : "",
    shortKey(entry),
    ...(all ? [entry.by] : []),
    toldWords(entry),
    ...(entry.blind ? ["–", "–"] : scoreCells(page, board, entry)),
    entry.blind ? "–" : number(entry.cost, 3),
  ]);
  part.submissions.replaceChildren(
    element("h4", all ? "Submissions" : "Your submissions"),
    rows.length ? table(page, all ? "Submissions" : "Your submissions", heads, rows)
      : element("p", "Nothing was submitted yet.", { class: "quiet" }),
  );
  if (chooses && rows.length) {
    part.submissions.append(element("p", `Tick up to ${board.most_finalists} of your own submissions for the final. If you tick none, ` +
      "your best one is in it.", { class: "quiet" }));
  }
  if (listed.length === SHOWN) part.submissions.append(element("p", `The newest ${SHOWN} are listed.`, { class: "quiet" }));
}

// Row by row, what is shown is how much better a submission is at least, and so what score it reaches.
const paired = (board) => board.compare === "paired";
const side = (board) => (board.upward ? "above" : "below");
const scoreHeads = (board) => (paired(board) ? [`Score ${side(board)}`, "Gain above"] : ["Score", "Interval"]);

function scoreCells({ number, interval }, board, entry) {
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

function finalistBox(page, board, part, entry) {
  const box = page.element("input", undefined, { type: "checkbox", "aria-label": `Finalist ${shortKey(entry)}` });
  box.checked = entry.finalist;
  box.addEventListener("change", () => page.attempt(async () => {
    try {
      const { finalists } = await page.call("GET", `/boards/${board.name}/finalists`);
      const others = finalists.filter((key) => key !== entry.key);
      await page.call("PUT", `/boards/${board.name}/finalists`, { submissions: box.checked ? [...others, entry.key] : others });
      entry.finalist = box.checked;
      tell(part.status, box.checked ? `${shortKey(entry)} is one of your finalists.` : `${shortKey(entry)} is no finalist any more.`);
    } catch (error) {
      box.checked = entry.finalist;
      tell(part.status, error.message, true);
    }
  }));
  return box;
}

async function upload(page, name, input, button, status) {
  const file = input.files[0];
  const kind = KINDS[file?.name.split(".").pop().toLowerCase()];
  if (!kind) {
    tell(status, "Choose a file whose name ends in .csv, .parquet or .json.", true);
    return;
  }
  button.disabled = true;
  tell(status, "Scoring…");
  try {
    const board = await page.call("GET", `/boards/${name}`);
    tell(status, outcome(page, board, await page.call("POST", `/boards/${name}/submissions`, await content(file), kind)));
    await refresh(page, name);
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

function outcome(page, board, entry) {
  const { number, interval } = page;
  if (entry.blind) return `Submission ${shortKey(entry)} was received. It is scored when the blind phase ends.`;
  const cost = `It cost ${number(entry.cost, 3)} nats.`;
  const words = `Submission ${shortKey(entry)}: ${toldWords(entry)}`;
  if (paired(board)) return entry.better ? `${words} than the best; its score is ${side(board)} ${number(entry.value)}. ${cost}` : `${words} than the best. ${cost}`;
  if (!entry.better) return `${words} than the best by a step; its score is in ${interval(entry)}. ${cost}`;
  return `${words}, ${number(entry.value)} in ${interval(entry)}. ${cost}`;
}

function tell(status, words, bad = false) {
  status.className = bad ? "bad long" : "long";
  status.textContent = words;
}

// A table that scrolls sideways by itself where the screen is narrow; with the keyboard too.
export function table(page, name, heads, rows) {
  const { element } = page;
  const made = element("table", undefined, { "aria-label": name });
  const head = element("tr");
  head.append(...heads.map((text) => element("th", text, { scope: "col" })));
  made.createTHead().append(head);
  made.createTBody().append(...rows.map((cells) => {
    const row = element("tr");
    row.append(...cells.map((cell) => {
      if (typeof cell === "string") return element("td", cell);
      const holder = element("td");
      holder.append(cell);
      return holder;
    }));
    return row;
  }));
  const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "group", "aria-label": name });
  scroll.append(made);
  return scroll;
}
