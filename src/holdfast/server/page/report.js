// The report that ends an account: a table once it was given, and a form for people who may give it.

import { $, beside, call, confirmed, interval, table } from "/tools.js";

export async function showReport(dataset, address, isShown) {
  const mayGive = dataset.may_report && !dataset.closed;
  $("report").hidden = !mayGive && !dataset.reported;
  $("give-report").hidden = !mayGive;
  $("reported").hidden = !dataset.reported;
  if (!dataset.reported) return;
  const report = await call("GET", `/datasets/${address}/report`);
  if (!isShown()) return;
  const rows = report.questions.map((question, place) => {
    const answer = report.answers[place];
    return [question, ...(answer ? [beside(answer.value, answer), interval(answer)] : ["could not be computed", "–"])];
  });
  $("report-rows").replaceChildren(table("Report", ["Question", "Value", "Interval"], rows));
  $("report-text").textContent = report.text;
}

// Returns whether a report was given.
export async function giveReport(address) {
  const questions = $("last-questions").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!questions.length) return false;
  const read = questions.length === 1 ? "the question is" : `the ${questions.length} questions are`;
  const words = `This ends the account of ${address} for good, for everyone: nothing more is answered from it. Then ${read} read exactly.`;
  if (!(await confirmed(words, "End the account and give the report"))) return false;
  await call("POST", `/datasets/${address}/report`, { questions });
  $("last-questions").value = "";
  return true;
}
