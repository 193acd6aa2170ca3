// What an owner does with one dataset: changes its terms, closes its account, archives, exports and deletes it. One at a time.

import { $, call, confirmed, element, ownsDataset, workplace } from "/tools.js";

let page; // What the page offers: listAgain() and notServed(words).
let address = null, dataset = null, terms = null;
let refreshed; // Shows the dataset again after a change.
const work = workplace("owner");

export function begin(offered, refresh) {
  page = offered;
  refreshed = refresh;
}

const table = () => address.split("@")[0];

// Begins with nothing open, and hides the controls from whoever does not own the dataset.
export function openOwner(wanted) {
  address = wanted;
  dataset = terms = null;
  $("owner").hidden = !ownsDataset(table());
  work.clear();
  for (const details of $("owner").querySelectorAll("details")) details.open = false;
  $("shares").replaceChildren();
  for (const id of ["terms-form", "export-form"]) $(id).reset();
}

export function showOwner(described) {
  dataset = described;
  $("owner-close").hidden = dataset.closed;
  $("share-unit").textContent = dataset.share_unit;
}

async function loadTerms() {
  const asked = address;
  const loaded = await call("GET", `/datasets/${asked}/terms`);
  if (asked === address) showTerms(loaded);
}

function showTerms(loaded) {
  terms = loaded;
  $("terms-rate").value = terms.rate;
  $("terms-report").value = terms.report;
  $("shares").replaceChildren(...Object.entries(terms.shares).sort().map(([who, share], place) => {
    const field = element("div", undefined, { class: "share" });
    const input = element("input", undefined, { id: `share-${place}`, type: "number", min: "0", step: "any", "data-who": who });
    input.value = share;
    field.append(element("label", `Share of ${who}`, { for: `share-${place}`, class: "long" }), input);
    return field;
  }));
  for (const id of ["share-who", "share-amount"]) $(id).value = "";
}

// Only what was changed is sent, so that two owners do not undo each other's changes.
function changes() {
  const changed = {}, shares = {};
  const rate = Number($("terms-rate").value), report = $("terms-report").value;
  if (rate !== terms.rate) changed.rate = rate;
  if (report !== terms.report) changed.report = report;
  for (const input of $("shares").querySelectorAll("input")) {
    const share = input.value === "" ? null : Number(input.value);
    if (share !== terms.shares[input.dataset.who]) shares[input.dataset.who] = share;
  }
  const who = $("share-who").value.trim(), amount = $("share-amount").value;
  if ((who === "") !== (amount === "")) throw new Error("A new share needs both: whose it is, and how much. Nothing was changed.");
  if (who !== "") shares[who] = Number(amount);
  if (Object.keys(shares).length) changed.shares = shares;
  return changed;
}

async function saveTerms() {
  const changed = changes();
  if (!Object.keys(changed).length) return "Nothing was changed.";
  showTerms(await call("PATCH", `/datasets/${address}/terms`, changed));
  await refreshed();
  return "Saved. It holds for the next question.";
}

async function closeAccount() {
  const words = `This closes the account of ${address} for everyone: nothing more is answered from it. It cannot be opened again.`;
  if (!(await confirmed(words, "Close the account"))) return "";
  await call("POST", `/datasets/${address}/close`);
  await refreshed();
  await page.listAgain();
  $("owner-title").focus();
  return "The account is closed.";
}

// The words say what became of it; none where the owner thought better of it.
export async function archiveDataset(name) {
  const words = `This archives ${name} with all its epochs: nobody can ask it until an owner serves it again.`;
  if (!(await confirmed(words, "Archive the dataset"))) return "";
  await call("POST", `/datasets/${name}/archive`);
  return `${name} is archived.`;
}

export async function deleteDataset(name) {
  const words = `This deletes ${name} for good: all its accounts end, and its rows cannot be registered again.`;
  if (!(await confirmed(words, "Delete the dataset", name))) return "";
  await call("DELETE", `/datasets/${name}?confirm=${encodeURIComponent(name)}`);
  return `${name} was deleted.`;
}

// The owner who takes the dataset away continues where those are listed that are not served.
async function leave(change) {
  const words = await change;
  if (words !== "") await page.notServed(words);
  return "";
}

async function exportDataset() {
  const to = $("export-to").value.trim(), name = table();
  const words = `This ends the account of ${name} here for good. Only the service with the key ${to} can continue it. Keep the file: it is needed there.`;
  if (to !== "" && !(await confirmed(words, "Hand the account over"))) return "";
  await call("POST", `/datasets/${name}/export`, { to: to || null }, { file: `${name}.tar` });
  if (to === "") return "A copy was exported.";
  return leave(`The account of ${name} was handed over, and ${name} is archived.`);
}

$("owner-terms").addEventListener("toggle", () => {
  if ($("owner-terms").open) work.attempt(loadTerms);
});
for (const [id, save] of [["terms-form", saveTerms], ["export-form", exportDataset]]) {
  $(id).addEventListener("submit", (event) => {
    event.preventDefault();
    work.attempt(save);
  });
}
$("close-account").addEventListener("click", () => work.attempt(closeAccount));
$("archive").addEventListener("click", () => work.attempt(() => leave(archiveDataset(table()))));
$("delete").addEventListener("click", () => work.attempt(() => leave(deleteDataset(table()))));
