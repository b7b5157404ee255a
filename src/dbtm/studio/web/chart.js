// Small line charts as SVG: one or more series of points, with a legend if there are several.
import { make } from "./viewer/dom.js";

const W = 320, LEFT = 44, RIGHT = 8, TOP = 10, BOTTOM = 22;
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4", "12 4"];
// Six colours and six dashes: the seventh series has the first colour again, with another dash.
const colourOf = i => `series-${i % 6}`, dashOf = i => DASHES[(i + Math.floor(i / 6)) % 6];

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const compact = value => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(1).replace("e+", "e");
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
};

// Round numbers that cover an interval.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(k => k * power).find(each => each >= raw * .999);
  const out = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) out.push(Number(value.toPrecision(12)));
  return out;
}

// Round numbers on a logarithmic axis: powers of 2 for counts, or else 1, 2, 5, 10 and so on, or powers of 10 alone.
function logTicks(low, high) {
  const all = (base, parts) => Array.from({ length: 99 }, (_, e) => parts.map(part => part * base ** (e - 30))).flat()
    .filter(x => x >= low * .999 && x <= high * 1.001);
  if (high <= 4096 && low >= 1) return all(2, [1]);
  const fine = all(10, [1, 2, 5]);
  return fine.length <= 7 ? fine : all(10, [1]);
}

// series: [{name, points: [[x, y]], bars: [[x, low, high]], style}]; `style` is the number of a colour and dash, by default the place.
// Options: title, logX, last (words beside the title), height.
export function lineChart(series, { title, logX = false, last = "", xLabel = "step", marks = false, height: H = 150 }) {
  const all = series.flatMap(({ points, bars = [] }) => [...points, ...bars.flatMap(([x, low, high]) => [[x, low], [x, high]])])
    .filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const figure = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const head = make("h3", {}, make("span", {}, title), make("span", {}, last));
  const card = make("figure", { className: "card chart" }, head, figure);
  card.style.margin = 0;
  if (!all.length) {
    figure.setAttribute("aria-label", `${title}: no points yet`);
    figure.append(svg("text", { x: W / 2, y: H / 2, "text-anchor": "middle" }, "no points yet"));
    return card;
  }
  const scaleX = logX ? Math.log2 : x => x;
  const xs = all.map(([x]) => scaleX(x)), ys = all.map(([, y]) => y);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  if (y0 === 0 && y1 === 0) y1 = 1;
  if (y0 === y1) { y0 -= Math.abs(y0) * .1 || .5; y1 += Math.abs(y1) * .1 || .5; }
  const px = x => LEFT + (x1 === x0 ? .5 : (scaleX(x) - x0) / (x1 - x0)) * (W - LEFT - RIGHT);
  const py = y => H - BOTTOM - (y - y0) / (y1 - y0) * (H - TOP - BOTTOM);
  for (const y of ticks(y0, y1, H > 200 ? 5 : 4)) {
    figure.append(svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: py(y), y2: py(y) }),
      svg("text", { x: LEFT - 6, y: py(y) + 3.5, "text-anchor": "end" }, compact(y)));
  }
  const marksX = logX ? logTicks(2 ** x0, 2 ** x1) : ticks(x0, x1, 4);
  for (const x of marksX) figure.append(svg("text", { x: px(x), y: H - 6, "text-anchor": "middle" }, compact(x)));
  series.forEach(({ name, points, bars = [], style = null }, place) => {
    const i = style ?? place;
    const good = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
    const group = svg("g", { class: colourOf(i) }, svg("title", {}, name));
    for (const [x, low, high] of bars) group.append(svg("line", { class: "bar-line", x1: px(x), x2: px(x), y1: py(low), y2: py(high) }));
    group.append(svg("path", { class: "line", "stroke-dasharray": dashOf(i),
      d: good.map(([x, y], k) => `${k ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("") }));
    if (marks || good.length === 1) for (const [x, y] of good) group.append(svg("circle", { cx: px(x), cy: py(y), r: 2.6 }));
    figure.append(group);
  });
  const [lowest, highest] = [Math.min(...ys), Math.max(...ys)];
  figure.setAttribute("aria-label", `${title} by ${xLabel}: from ${compact(lowest)} to ${compact(highest)}${last ? `, last ${last}` : ""}`);
  if (series.length > 1) {
    card.append(make("ul", { className: "key" }, series.map(({ name, style = null }, place) => {
      const i = style ?? place;
      const sample = svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true", class: colourOf(i) },
        svg("line", { x1: 1, x2: 25, y1: 6, y2: 6, "stroke-width": 2, "stroke-dasharray": dashOf(i) }));
      return make("li", {}, sample, name);
    })));
  }
  return card;
}

// At most `most` points, each the mean of its neighbours: long runs stay quick to draw.
export function thinned(points, most = 400) {
  if (points.length <= most) return points;
  const size = points.length / most;
  return Array.from({ length: most }, (_, i) => {
    const part = points.slice(Math.floor(i * size), Math.max(Math.floor(i * size) + 1, Math.floor((i + 1) * size)));
    return [part.at(-1)[0], part.reduce((sum, [, y]) => sum + y, 0) / part.length];
  });
}
