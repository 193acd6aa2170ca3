// The administration of the service, for owners: people and their tokens, datasets that are not served, imports, and what owners did.

import { archiveDataset, deleteDataset } from "/owner.js";
import * as registering from "/registering.js";
import { $, call, confirmed, element, ownsDataset, ownsEverything, table, workplace } from "/tools.js";

const ROLES = {
  analyst: "analyst: asks",
  auditor: "auditor: reads the books",
  owner: "owner: does everything",
  participant: "participant: submits to boards and gates",
  submitter: "submitter: a harness of one gate",
};
const AT_FIRST = 25, MORE = 100; // acts in the list
const PAGE = 1000; // acts in one request

let page; // What the page offers: listAgain(), reaches() and broken().
let people = [], changing = null; // All tokens, and the one that is being changed.
const work = workplace("administration");

export function begin(offered) {
  page = offered;
  registering.begin(offered, work);
  for (const id of ["change-role", "give-role"]) {
    $(id).replaceChildren(...Object.entries(ROLES).map(([role, words]) => element("option", words, { value: role })));
  }
}

export async function openAdministration() {
  registering.openRegistering();
  for (const id of ["import", "acts"]) $(id).hidden = !ownsEverything();
  $("reaches").replaceChildren(...[...(ownsEverything() ? ["*"] : []), ...page.reaches()].map((reach) => element("option", undefined, { value: reach })));
}

// A token that was given is not left on the screen.
export function forget() {
  work.clear();
  people = [];
  stopChanging();
  hideGiven();
  registering.forget();
  for (const details of $("administration").querySelectorAll("details")) details.open = false;
  for (const id of ["token-list", "state-list", "act-list"]) $(id).replaceChildren();
  for (const id of ["give-token-form", "import-form"]) $(id).reset();
}

// Shows which datasets are not served, after one of them was archived or deleted.
export function showNotServed(words) {
  $("not-served").open = true;
  work.say(words);
}

const button = (words, label, act) => {
  const made = element("button", words, { type: "button", class: "plain small", "aria-label": label });
  made.addEventListener("click", () => work.attempt(() => act(made)));
  return made;
};
const day = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 10);
const account = ({ name, team }) => (team ? `${team}/${name}` : name);
const nothing = (words) => element("p", words, { class: "quiet" });

// People.
async function loadPeople() {
  people = await call("GET", "/tokens");
  showPeople();
}

function ending(token) {
  if (token.revoked) return "revoked";
  return token.expires <= Date.now() / 1000 ? `ended ${day(token.expires)}` : `until ${day(token.expires)}`;
}

function showPeople() {
  const valid = (token) => !token.revoked && token.expires > Date.now() / 1000;
  const shown = people.filter((token) => valid(token) || $("show-ended").checked);
  const rows = shown.map((token) => {
    const acts = element("span", undefined, { class: "acts" });
    if (!token.revoked) acts.append(button("Change", `Change the token of ${account(token)}`, (opener) => startChanging(token, opener)));
    if (valid(token)) acts.append(button("Revoke", `Revoke the token of ${account(token)}`, () => revoke(token)));
    return [account(token), token.role, token.dataset, ending(token), acts];
  });
  $("token-list").replaceChildren(rows.length
    ? table("Tokens, the newest first", ["Who", "Role", "Reaches", "Valid", ""], rows)
    : nothing("Nobody has a token for what your token reaches."));
}

function startChanging(token, opener) {
  changing = { token, opener };
  $("change-token-title").textContent = `Token of ${account(token)}`;
  $("change-role").value = token.role;
  $("change-reach").value = token.dataset;
  $("change-days").value = "";
  $("change-token").hidden = false;
  $("change-role").focus();
}

function stopChanging() {
  changing = null;
  $("change-token").hidden = true;
  $("change-token-title").textContent = "";
}

async function changeToken() {
  const { token } = changing;
  const role = $("change-role").value, dataset = $("change-reach").value.trim(), days = $("change-days").value;
  const changed = {
    ...(role !== token.role && { role }),
    ...(dataset !== token.dataset && { dataset }),
    ...(days !== "" && { days: Number(days) }),
  };
  if (!Object.keys(changed).length) return "Nothing was changed.";
  await call("PATCH", `/tokens/${token.identity}`, changed);
  stopChanging();
  await loadPeople();
  $("people").querySelector("summary").focus();
  return `The token of ${account(token)} was changed. The change applies from its next request on.`;
}

async function revoke(token) {
  const words = `This ends the token of ${account(token)} at once, for good. What they asked and spent stays in the books.`;
  if (!(await confirmed(words, "Revoke the token"))) return "";
  await call("DELETE", `/tokens/${token.identity}`);
  stopChanging();
  await loadPeople();
  $("people").querySelector("summary").focus();
  return `The token of ${account(token)} was revoked.`;
}

async function giveToken() {
  hideGiven();
  const given = await call("POST", "/tokens", {
    name: $("give-name").value.trim(),
    team: $("give-team").value.trim(),
    role: $("give-role").value,
    dataset: $("give-reach").value.trim(),
    days: Number($("give-days").value),
  });
  $("give-token-form").reset();
  $("given-words").textContent = `The token of ${account(given)}, ${given.role}, ${ending(given)}. It is shown this once: copy it now.`;
  $("given-token").textContent = given.token;
  $("given").hidden = false;
  $("given-close").focus();
  return "";
}

function hideGiven() {
  $("given").hidden = true;
  for (const id of ["given-words", "given-token"]) $(id).textContent = "";
}

// Datasets.
async function loadStates() {
  const states = await call("GET", "/states");
  const broken = page.broken().filter(ownsDataset).map((name) => ({ name, state: "cannot be opened", since: null }));
  const rows = [...broken, ...states].map(({ name, state, since }) => {
    const acts = element("span", undefined, { class: "acts" });
    if (state === "archived") acts.append(button("Serve again", `Serve ${name} again`, () => unarchive(name)));
    if (since === null) acts.append(button("Archive", `Archive ${name}`, () => settled(archiveDataset(name))));
    else acts.append(button("Download the book", `Download the account book of ${name}`, () => saveBook(name)));
    if (state !== "deleted") acts.append(button("Delete", `Delete ${name}`, () => settled(deleteDataset(name))));
    return [name, state, since === null ? "–" : day(since), acts];
  });
  $("state-list").replaceChildren(rows.length
    ? table("Datasets that are not served", ["Dataset", "State", "Since", ""], rows)
    : nothing("Every dataset is served."));
}

// Shows the datasets again after one of them was changed; returns what became of it.
async function settled(change) {
  const words = await change;
  if (words === "") return words;
  await page.listAgain();
  await loadStates();
  $("not-served").querySelector("summary").focus();
  return words;
}

function unarchive(name) {
  return settled(call("POST", `/datasets/${name}/unarchive`).then(() => `${name} is served again.`));
}

async function saveBook(name) {
  await call("GET", `/datasets/${name}/ledger`, undefined, { file: `${name}.jsonl` });
  return "The book was downloaded.";
}

async function importDataset() {
  const file = $("import-file").files[0];
  let content;
  try {
    content = await file.arrayBuffer();
  } catch {
    throw new Error("The file could not be read. Choose it again.");
  }
  const key = encodeURIComponent($("import-key").value.trim()), name = encodeURIComponent($("import-name").value.trim());
  const imported = await call("POST", `/imports?key=${key}&name=${name}`, content, { kind: "application/x-tar" });
  $("import-form").reset();
  await page.listAgain();
  const account = imported.open ? "Its account continues here." : "It is a copy, and its account is closed.";
  return `${imported.name} was imported. ${account}`;
}

// Acts.
const ABOUT = ["by", "time", "act", "identity", "line"];

function aboutWords(act) {
  if (act.token) return `${account(act.token)}, ${act.token.role}, ${act.token.dataset}`;
  if (act.terms) {
    const shares = Object.entries(act.terms.shares).map(([who, share]) => `${who} ${share}`).join(", ") || "none";
    return `${act.dataset}: rate ${act.terms.rate}; report by ${act.terms.report}; shares ${shares}`;
  }
  const further = Object.entries(act).filter(([name, value]) => !ABOUT.includes(name) && name !== "dataset" && value !== null);
  return [act.dataset, ...further.map(([name, value]) => `${name.replace("_", " ")} ${value}`)].filter(Boolean).join("; ");
}

async function loadActs() {
  const acts = [];
  for (let after = 0; ;) {
    const listed = await call("GET", `/administration?limit=${PAGE}&after=${after}`);
    if (!listed.acts.length) break;
    acts.push(...listed.acts);
    after = listed.after;
  }
  acts.reverse();
  let shown = AT_FIRST;
  const show = () => {
    const rows = acts.slice(0, shown).map((act) => [
      new Date(1000 * act.time).toISOString().slice(0, 16).replace("T", " "), act.by.replace(/^\//, ""), act.act, aboutWords(act),
    ]);
    $("act-list").replaceChildren(rows.length ? table("Acts of owners, the newest first", ["Time (UTC)", "Who", "What", "About"], rows) : nothing("Nothing yet."));
    $("older-acts").hidden = acts.length <= shown;
  };
  $("older-acts").onclick = () => {
    shown += MORE;
    show();
    if ($("older-acts").hidden) $("act-list").firstElementChild.focus();
  };
  show();
}

async function exportActs() {
  await call("GET", "/administration/ledger", undefined, { file: "administration.jsonl" });
  return "The book was downloaded.";
}

// What is shown is loaded when it is opened; a form has nothing to load.
for (const [id, load] of [["people", loadPeople], ["not-served", loadStates], ["acts", loadActs]]) {
  $(id).addEventListener("toggle", () => {
    if ($(id).open) work.attempt(load);
  });
}
for (const [id, act] of [["change-token", changeToken], ["give-token-form", giveToken], ["import-form", importDataset]]) {
  $(id).addEventListener("submit", (event) => {
    event.preventDefault();
    work.attempt(act);
  });
}
$("show-ended").addEventListener("change", showPeople);
$("change-cancel").addEventListener("click", () => {
  const { opener } = changing;
  stopChanging();
  opener.focus();
});
$("given-close").addEventListener("click", () => {
  hideGiven();
  $("give-name").focus();
});
$("export-acts").addEventListener("click", () => work.attempt(exportActs));
