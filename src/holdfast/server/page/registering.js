// Registering datasets, boards and gates, for owners of the whole service. Rows come from the sources that the operator permits.

import { readScores } from "/gates.js";
import { $, call, ownsEverything } from "/tools.js";

const FORMS = { dataset: registerDataset, board: registerBoard, gate: registerGate };

let page; // What the page offers: listAgain() and go(kind, name).

// `work` shows what became of a form, or why it was refused.
export function begin(offered, work) {
  page = offered;
  for (const [kind, register] of Object.entries(FORMS)) {
    $(`register-${kind}-form`).addEventListener("submit", (event) => {
      event.preventDefault();
      work.attempt(register);
    });
  }
}

export function openRegistering() {
  for (const kind of Object.keys(FORMS)) $(`register-${kind}`).hidden = !ownsEverything();
}

export function forget() {
  for (const kind of Object.keys(FORMS)) $(`register-${kind}-form`).reset();
}

const text = (id) => $(id).value.trim();
// A field that is left empty is not sent: the service has a default for it.
const numbers = (fields) => Object.fromEntries(Object.entries(fields).filter(([, id]) => text(id) !== "").map(([name, id]) => [name, Number(text(id))]));

async function registerDataset() {
  const unit = text("dataset-unit");
  const policy = {
    ...numbers({ confidence: "dataset-confidence", error: "dataset-error", expect: "dataset-expect" }),
    report: $("dataset-report").value,
    ...(unit !== "" && { rows: { kind: "clusters", column: unit } }),
  };
  const name = text("register-dataset-name");
  await call("POST", "/datasets", { name, source: text("dataset-source"), policy });
  return goOn("dataset", name);
}

async function registerBoard() {
  const name = text("register-board-name");
  await call("POST", "/boards", {
    name,
    source: text("board-source"),
    target: text("board-target"),
    id: text("board-id"),
    metric: $("board-metric").value,
    blind: $("board-blind").checked,
    ...numbers({ confidence: "board-confidence" }),
  });
  return goOn("board", name);
}

async function registerGate() {
  const file = $("register-gate-file").files[0], name = text("register-gate-name");
  await call("POST", "/gates", {
    name,
    results: { scores: readScores(file.name, await file.text()) },
    incumbent: text("gate-incumbent"),
    ...numbers({ confidence: "gate-confidence", minimum: "gate-minimum", expect: "gate-expect" }),
  });
  return goOn("gate", name);
}

// An owner who registered something continues at its place.
async function goOn(kind, name) {
  $(`register-${kind}-form`).reset();
  await page.listAgain();
  await page.go(kind, name);
  return "";
}
