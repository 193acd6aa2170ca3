// The page: signs in with a token, lists datasets, boards and gates, and shows one of them. No framework, no build.

import * as administration from "/administration.js";
import * as boards from "/boards.js";
import * as dataset from "/dataset.js";
import * as gates from "/gates.js";
import { $, call, element, number, ownsSomething, redraw, session, undrawn, whenSignedOut } from "/tools.js";

const KINDS = {
  dataset: { path: "/datasets", open: dataset.openDataset, none: "This token reaches no dataset." },
  board: { path: "/boards", open: boards.openBoard },
  gate: { path: "/gates", open: gates.openGate },
};
const SERVICE = { kind: "administration", name: "service" };
const MANY = 8; // From so many places on, they can be searched.

let places = []; // {kind, name, words, broken}

// An error is shown once, at the top, until it is dismissed or something else is done.
function notice(error) {
  $("notice").hidden = !error;
  $("notice-words").textContent = error ? error.message : "";
}

async function attempt(work) {
  notice(null);
  try {
    await work();
  } catch (error) {
    notice(error);
  }
}

function signOut() {
  sessionStorage.removeItem("holdfast-token");
  session.token = null;
  session.me = null;
  places = [];
  for (const id of ["work", "person", "sign-out", "dataset", "board", "gate", "administration", "only-submits"]) $(id).hidden = true;
  administration.forget();
  for (const owner of ["answers", "result", "gate"]) undrawn(owner);
  history.replaceState(null, "", location.pathname);
  $("sign-in").hidden = false;
  $("token").focus();
}

async function signIn() {
  const me = await call("GET", "/me");
  session.me = me;
  if (session.token) sessionStorage.setItem("holdfast-token", session.token);
  $("person").textContent = me.team ? `${me.name} (${me.team}), ${me.role}` : `${me.name}, ${me.role}`;
  $("key").textContent = (await call("GET", "/key")).key;
  $("sign-in").hidden = true;
  for (const id of ["person", "sign-out"]) $(id).hidden = false;
  const onlySubmits = me.role === "submitter";
  $("only-submits").hidden = !onlySubmits;
  $("work").hidden = onlySubmits;
  if (onlySubmits) return;
  await listAgain();
  const wanted = addressed();
  const first = places.find((place) => !place.broken);
  if (wanted !== null) await show(wanted.kind, wanted.name);
  else if (first) await show(first.kind, first.name);
  else if (ownsSomething()) await show(SERVICE.kind, SERVICE.name);
  $("nowhere").hidden = wanted !== null || Boolean(first) || ownsSomething();
}

// A participant has no business with datasets.
const kindsFor = (role) => (role === "participant" ? ["board", "gate"] : ["dataset", "board", "gate"]);

async function listAgain() {
  const listed = await Promise.all(kindsFor(session.me.role).map(async (kind) =>
    (await call("GET", KINDS[kind].path)).map((about) => ({ kind, name: about.name, words: shortWords(kind, about), broken: about.broken }))));
  places = listed.flat();
  showPlaces();
}

function shortWords(kind, about) {
  if (about.broken) return "cannot be opened";
  if (kind === "board") return about.final !== null ? "final held" : about.blind ? "blind" : `${about.standing.length} in the standing`;
  if (kind === "gate") return `${about.versions.length - 1} promoted`;
  if (about.closed) return about.reported ? "closed, with a report" : "closed";
  if (about.left !== null) return `${number(100 * (about.total > 0 ? about.left / about.total : 0), 3)} % left`;
  return about.share_half_width === null ? "open" : `a share gets ±${number(about.share_half_width, 2)}`;
}

function showPlaces() {
  $("find-place-box").hidden = places.length < MANY;
  $("service-places").hidden = !ownsSomething();
  const wanted = places.length < MANY ? "" : $("find-place").value.trim().toLowerCase();
  for (const kind of Object.keys(KINDS)) {
    const own = places.filter((place) => place.kind === kind);
    const fitting = own.filter(({ name }) => name.toLowerCase().includes(wanted));
    $(`${kind}-places`).hidden = own.length === 0 && !(KINDS[kind].none && kindsFor(session.me.role).includes(kind));
    $(`${kind}-list`).replaceChildren(...fitting.map(placeItem));
    if (!own.length && KINDS[kind].none) $(`${kind}-list`).append(element("li", KINDS[kind].none, { class: "quiet" }));
    else if (!fitting.length) $(`${kind}-list`).append(element("li", "No name contains this text.", { class: "quiet" }));
  }
  markPlace();
}

function placeItem({ kind, name, words, broken }) {
  const item = element("li");
  const button = element("button", undefined, { type: "button", class: "place", "data-kind": kind, "data-name": name });
  button.append(element("span", name, { class: "long" }), element("small", words, broken ? { class: "bad" } : {}));
  button.addEventListener("click", () => (broken ? notice(new Error(broken)) : go(kind, name)));
  item.append(button);
  return item;
}

// The address after # says what is shown, so that a reload and the way back lead to it.
function addressed() {
  const [kind, ...rest] = decodeURIComponent(location.hash.slice(1)).split("/");
  const name = rest.join("/");
  if (kind === SERVICE.kind) return ownsSomething() ? SERVICE : null;
  const known = places.some((place) => place.kind === kind && place.name === (kind === "dataset" ? dataset.tableOf(name) : name) && !place.broken);
  return known ? { kind, name } : null;
}

let current = null;
function markPlace() {
  for (const button of document.querySelectorAll("button.place")) {
    const here = current !== null && button.dataset.kind === current.kind && button.dataset.name === current.name.split("@")[0];
    button.setAttribute("aria-current", String(here));
  }
  $("menu").textContent = current === null ? "Datasets, boards and gates" : placeWords(current);
}

function placeWords({ kind, name }) {
  const word = `${kind[0].toUpperCase()}${kind.slice(1)}`;
  return kind === SERVICE.kind ? word : `${word} ${name}`;
}

async function show(kind, name) {
  current = { kind, name };
  markPlace();
  closeMenu();
  for (const owner of ["answers", "result", "gate"]) undrawn(owner);
  administration.forget();
  for (const id of ["dataset", "board", "gate", "administration"]) $(id).hidden = id !== kind;
  await (kind === SERVICE.kind ? administration.openAdministration() : KINDS[kind].open(name));
}

// A reader who chooses a place continues at its name, at once. A reader who moves on while it loads is not called back.
async function go(kind, name) {
  history.pushState(null, "", `#${kind}/${encodeURIComponent(name)}`);
  const shown = attempt(() => show(kind, name));
  $(`${kind}-name`).focus({ preventScroll: true });
  $("main").scrollIntoView();
  await shown;
}

function closeMenu() {
  $("menu").setAttribute("aria-expanded", "false");
  $("places").classList.remove("open");
}

// A dataset was archived or deleted: its place is gone.
async function notServed(words) {
  await listAgain();
  await go(SERVICE.kind, SERVICE.name);
  administration.showNotServed(words);
}

const reaches = () => places.map(({ kind, name }) => `${kind}:${name}`);
const broken = () => places.filter((place) => place.kind === "dataset" && place.broken).map(({ name }) => name);
const offered = { attempt, go, listAgain, notServed, reaches, broken };
for (const part of [dataset, boards, gates, administration]) part.begin(offered);
whenSignedOut(signOut);

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  session.token = $("token").value.trim();
  $("token").value = "";
  attempt(signIn);
});
$("sign-out").addEventListener("click", () => attempt(async () => {
  if (!session.token) await call("POST", "/sign-out");
  signOut();
}));
$("notice-close").addEventListener("click", () => { notice(null); $("main").focus(); });
$("menu").addEventListener("click", () => {
  const open = $("places").classList.toggle("open");
  $("menu").setAttribute("aria-expanded", String(open));
});
$("find-place").addEventListener("input", showPlaces);
$("open-administration").addEventListener("click", () => go(SERVICE.kind, SERVICE.name));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || $("confirm").open) return;
  notice(null);
  closeMenu();
});
window.addEventListener("popstate", () => {
  const wanted = session.me === null ? null : addressed();
  if (wanted !== null) attempt(() => show(wanted.kind, wanted.name));
});
window.addEventListener("resize", redraw);

// Whoever came back from the provider has a session, and no token.
async function start() {
  if (session.token) return attempt(signIn);
  const ways = await call("GET", "/sign-in");
  $("provider").hidden = !ways.provider;
  if (ways.provider) await signIn().catch(() => {});
}
start();
