// Answers with many numbers: a curve with its band, the bins of a histogram, or a table of groups.

import { beside, drawn, element, interval, number, part, table, ticks, undrawn } from "/tools.js";

const LEVELS = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]; // shares in the short table of a curve
const LEFT = 48, RIGHT = 14, TOP = 12, HEIGHT = 200, FOOT = 26; // pixels of a picture
const LABEL = 64; // pixels of a number below the axis

export const isCurve = (question) => /^cdf\s*\(/.test(question);
export const isHistogram = (question) => /^histogram\s*\(/.test(question);
export const isTable = (question) => isHistogram(question) || /\bby\s*=/.test(question);

const place = () => document.getElementById("result");

export function clear() {
  undrawn("result");
  place().hidden = true;
  place().replaceChildren();
}

export function showCurve(curve) {
  const name = curve.answer.query, last = curve.points.length - 1;
  const row = (index) => {
    const band = { low: curve.low[index], high: curve.high[index] };
    return [number(curve.points[index]), beside(curve.value[index], band), interval(band)];
  };
  const heads = ["At most", "Share", "Interval"];
  const nearest = (level) => {
    const index = curve.value.findIndex((share) => share >= level);
    return index < 0 ? last : index;
  };
  const chosen = [...new Set(LEVELS.map(nearest))];
  const middle = nearest(0.5);
  const figure = makeFigure(
    `Curve of ${name} from ${number(curve.points[0])} to ${number(curve.points[last])}. Of the rows, a share of ` +
      `${row(middle)[1]} is at most ${row(middle)[0]}, in the interval ${row(middle)[2]}. The table below has more points.`,
    "At each step the line is the share of training rows that are at most as large as the number below it. The true share lies in " +
      "the band, at all points together, with the promised confidence.",
    (drawing) => drawCurve(curve, drawing),
  );
  const all = element("details");
  all.append(element("summary", `All ${curve.points.length} points`), table(`All points of ${name}`, heads, curve.points.map((_, index) => row(index))));
  show(element("h3", name, { class: "long" }), figure, table(`Points of ${name}`, heads, chosen.map(row)), all);
}

export function showTable(reply) {
  const heads = [...reply.by, "Value", "Interval"];
  const rows = reply.rows.map(({ group, answer, note }) => {
    const padded = reply.by.map((_, index) => group[index] ?? "");
    return [...padded, ...(answer ? [beside(answer.value, answer), interval(answer)] : ["–", note])];
  });
  const figures = isHistogram(reply.query) ? [histogram(reply)] : [];
  show(element("h3", reply.query, { class: "long" }), ...figures, table(`Table of ${reply.query}`, heads, rows));
}

function show(...parts) {
  place().hidden = false;
  place().replaceChildren(...parts);
  if (draw !== null) drawn("result", draw);
  draw = null;
}

let draw = null; // The picture that was made and is not yet on the page.
function makeFigure(words, caption, drawInto) {
  const figure = element("figure");
  const drawing = part("svg", { role: "img", "aria-label": words });
  figure.append(drawing, element("figcaption", caption, { class: "quiet" }));
  draw = () => drawInto(drawing);
  return figure;
}

// Where a picture of this width has its axes, and the lines and numbers of the share.
function frame(drawing, highest) {
  const width = Math.max(280, drawing.parentElement.clientWidth);
  const y = (share) => TOP + HEIGHT * (1 - share / highest);
  drawing.setAttribute("viewBox", `0 0 ${width} ${TOP + HEIGHT + FOOT}`);
  const lines = ticks(0, highest, 4).flatMap((share) => [
    part("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }),
    part("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, number(share)),
  ]);
  return { right: width - RIGHT, y, lines };
}

const below = (x, value, anchor = "middle") =>
  part("text", { x, y: TOP + HEIGHT + 18, "text-anchor": anchor }, number(value));

// Between two points the share is at least the lower end at the one before, and at most the upper end at the one after.
function drawCurve(curve, drawing) {
  const { points, value, low, high } = curve;
  const { right, y, lines } = frame(drawing, 1);
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
    ...marks.map((mark) => (x(mark) > right - LABEL / 3 ? below(right + RIGHT, mark, "end") : below(x(mark), mark))),
    part("path", { class: "band", d: `M${start} ${y(low[0])} ${later(low)} V${y(high[high.length - 1])} ${back} Z` }),
    part("path", { class: "curve", d: `M${start} ${y(value[0])} ${later(value)}` }),
    // A value that all training rows share has no width to draw a curve over.
    ...(span > 0 ? [] : [
      part("line", { class: "interval", x1: start, x2: start, y1: y(low[0]), y2: y(high[0]) }),
      part("circle", { class: "value", cx: start, cy: y(value[0]), r: 5 }),
    ]),
  );
}

function histogram(reply) {
  const bins = reply.rows.map(({ group, answer }) => {
    const [from, to] = group[0].slice(1, -1).split(", ").map(Number);
    return { from, to, answer };
  });
  const largest = reply.rows.reduce((best, row) => (row.answer.value > best.answer.value ? row : best));
  return makeFigure(
    `${reply.query} in ${bins.length} bins. The largest is ${largest.group[0]}, with a share of ` +
      `${beside(largest.answer.value, largest.answer)} in the interval ${interval(largest.answer)}. The table below has all bins.`,
    "Each bar is the share of rows in a bin, with its interval. All bins are drawn equally wide. They are computed from one " +
      "answer about the whole distribution, so other bins of it cost nothing.",
    (drawing) => drawBins(bins, drawing),
  );
}

function drawBins(bins, drawing) {
  const { right, y, lines } = frame(drawing, Math.max(...bins.map(({ answer }) => answer.high)) || 1);
  const column = (right - LEFT) / bins.length, gap = Math.min(4, column / 4);
  const every = Math.ceil(LABEL / column);
  const bars = bins.flatMap(({ from, answer }, index) => {
    const start = LEFT + column * index, middle = start + column / 2, level = y(answer.value);
    return [
      part("rect", { class: "bar", x: start + gap / 2, y: level, width: column - gap, height: y(0) - level }),
      part("line", { class: "whisker", x1: middle, x2: middle, y1: y(answer.low), y2: y(answer.high) }),
      ...(index % every === 0 && (index === 0 || index + every / 2 <= bins.length) ? [below(start, from)] : []),
    ];
  });
  const end = bins[bins.length - 1].to;
  drawing.replaceChildren(...lines, ...bars, below(right + RIGHT, end, "end"));
}
