// Answers with many numbers: a curve with its band, the bins of a histogram, or a table of groups.

import { table } from "/boards.js";
import { part } from "/gates.js";

const LEVELS = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]; // shares in the short table of a curve
const LEFT = 48, RIGHT = 14, TOP = 12, HEIGHT = 200, FOOT = 26; // pixels of a picture
const LABEL = 64; // pixels of a number below the axis

// Draws the picture that is shown now; again when the window has another width.
let draw = () => {};

export const isCurve = (question) => /^cdf\s*\(/.test(question);
export const isHistogram = (question) => /^histogram\s*\(/.test(question);
export const isTable = (question) => isHistogram(question) || /\bby\s*=/.test(question);

const place = () => document.getElementById("result");

export function redraw() {
  draw();
}

export function clear() {
  draw = () => {};
  place().hidden = true;
  place().replaceChildren();
}

// `page` has the tools of the page (element, number, interval).
export function showCurve(page, curve) {
  const { element, number } = page;
  const name = curve.answer.query, last = curve.points.length - 1;
  const row = (index) =>
    [number(curve.points[index]), number(curve.value[index]), page.interval({ low: curve.low[index], high: curve.high[index] })];
  const heads = ["At most", "Share", "Interval"];
  const nearest = (level) => {
    const index = curve.value.findIndex((share) => share >= level);
    return index < 0 ? last : index;
  };
  const chosen = [...new Set(LEVELS.map(nearest))];
  const middle = nearest(0.5);
  const figure = makeFigure(
    page,
    `Curve of ${name} from ${number(curve.points[0])} to ${number(curve.points[last])}. Of the rows, a share of ` +
      `${row(middle)[1]} is at most ${row(middle)[0]}, in the interval ${row(middle)[2]}. The table below has more points.`,
    "At each step the line is the share of training rows that are at most as large as the number below it. The true share lies in " +
      "the band, at all points together, with the promised confidence.",
    (drawing) => drawCurve(page, curve, drawing),
  );
  const all = element("details");
  all.append(element("summary", `All ${curve.points.length} points`), table(page, `All points of ${name}`, heads, curve.points.map((_, index) => row(index))));
  show(element("h3", name, { class: "long" }), figure, table(page, `Points of ${name}`, heads, chosen.map(row)), all);
}

export function showTable(page, reply) {
  const { element, number, interval } = page;
  const heads = [...reply.by, "Value", "Interval"];
  const rows = reply.rows.map(({ group, answer, note }) => {
    const padded = reply.by.map((_, index) => group[index] ?? "");
    return [...padded, ...(answer ? [number(answer.value), interval(answer)] : ["–", note])];
  });
  const figures = isHistogram(reply.query) ? [histogram(page, reply)] : [];
  show(element("h3", reply.query, { class: "long" }), ...figures, table(page, `Table of ${reply.query}`, heads, rows));
}

function show(...parts) {
  place().hidden = false;
  place().replaceChildren(...parts);
  draw();
}

function makeFigure(page, words, caption, drawInto) {
  const figure = page.element("figure");
  const drawing = part("svg", { role: "img", "aria-label": words });
  figure.append(drawing, page.element("figcaption", caption, { class: "quiet" }));
  draw = () => drawInto(drawing);
  return figure;
}

// Where a picture of this width has its axes, and the lines and numbers of the share.
function frame(page, drawing, highest) {
  const width = Math.max(280, drawing.parentElement.clientWidth);
  const y = (share) => TOP + HEIGHT * (1 - share / highest);
  drawing.setAttribute("viewBox", `0 0 ${width} ${TOP + HEIGHT + FOOT}`);
  const lines = ticks(0, highest, 4).flatMap((share) => [
    part("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }),
    part("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, page.number(share)),
  ]);
  return { right: width - RIGHT, y, lines };
}

// Round numbers between two ends, about so many.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

const below = (page, x, value, anchor = "middle") =>
  part("text", { x, y: TOP + HEIGHT + 18, "text-anchor": anchor }, page.number(value));

// Between two points the share is at least the lower end at the one before, and at most the upper end at the one after.
function drawCurve(page, curve, drawing) {
  const { points, value, low, high } = curve;
  const { right, y, lines } = frame(page, drawing, 1);
  const least = points[0], most = points[points.length - 1], span = most - least;
  const x = (point) => (span > 0 ? LEFT + ((point - least) / span) * (right - LEFT) : (LEFT + right) / 2);
  const later = (shares) => points.slice(1).map((point, index) => `H${x(point)} V${y(shares[index + 1])}`).join(" ");
  const back = points.slice(1).map((_, index) => {
    const before = points.length - 2 - index;
    return `H${x(points[before])} V${y(high[before])}`;
  }).join(" ");
  const start = x(least);
  const marks = span > 0 ? ticks(least, most, Math.max(2, Math.floor((right - LEFT) / LABEL))) : [least];
  drawing.replaceChildren(
    ...lines,
    // A number at the right edge ends there, so that it is not cut off.
    ...marks.map((mark) => (x(mark) > right - LABEL / 3 ? below(page, right + RIGHT, mark, "end") : below(page, x(mark), mark))),
    part("path", { class: "band", d: `M${start} ${y(low[0])} ${later(low)} V${y(high[high.length - 1])} ${back} Z` }),
    part("path", { class: "curve", d: `M${start} ${y(value[0])} ${later(value)}` }),
    // A value that all training rows share has no width to draw a curve over.
    ...(span > 0 ? [] : [
      part("line", { class: "interval", x1: start, x2: start, y1: y(low[0]), y2: y(high[0]) }),
      part("circle", { class: "value", cx: start, cy: y(value[0]), r: 5 }),
    ]),
  );
}

function histogram(page, reply) {
  const bins = reply.rows.map(({ group, answer }) => {
    const [from, to] = group[0].slice(1, -1).split(", ").map(Number);
    return { from, to, answer };
  });
  const largest = reply.rows.reduce((best, row) => (row.answer.value > best.answer.value ? row : best));
  return makeFigure(
    page,
    `${reply.query} in ${bins.length} bins. The largest is ${largest.group[0]}, with a share of ` +
      `${page.number(largest.answer.value)} in the interval ${page.interval(largest.answer)}. The table below has all bins.`,
    "Each bar is the share of rows in a bin, with its interval. All bins are drawn equally wide. They are read off the " +
      "distribution, which was asked once: other bins of it cost nothing.",
    (drawing) => drawBins(page, bins, drawing),
  );
}

function drawBins(page, bins, drawing) {
  const { right, y, lines } = frame(page, drawing, Math.max(...bins.map(({ answer }) => answer.high)) || 1);
  const column = (right - LEFT) / bins.length, gap = Math.min(4, column / 4);
  const every = Math.ceil(LABEL / column);
  const bars = bins.flatMap(({ from, answer }, index) => {
    const start = LEFT + column * index, middle = start + column / 2, level = y(answer.value);
    return [
      part("rect", { class: "bar", x: start + gap / 2, y: level, width: column - gap, height: y(0) - level }),
      part("line", { class: "whisker", x1: middle, x2: middle, y1: y(answer.low), y2: y(answer.high) }),
      ...(index % every === 0 && (index === 0 || index + every / 2 <= bins.length) ? [below(page, start, from)] : []),
    ];
  });
  const end = bins[bins.length - 1].to;
  drawing.replaceChildren(...lines, ...bars, below(page, right + RIGHT, end, "end"));
}
