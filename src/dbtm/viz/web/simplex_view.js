// The 2-simplex in its plane: basins of the map, the field, and two paths from a start that can be moved.
import { K, ahead, endpoint, minus, norm, normals, path, rate, transport } from "./simplex_core.js";

const HEIGHT = Math.sqrt(3) / 2, MARGIN = 0.33, SPAN = 1 + 2 * MARGIN;
const CORNERS = [[0, HEIGHT], [-0.5, 0], [0.5, 0]];
const LOW = (HEIGHT + 2 * MARGIN - SPAN) / 2 - MARGIN; // the drawn square is centred on the triangle
const DRAWS = 2000;
const corner = j => [0, 1, 2].map(k => (k === j ? 1 : 0));
export const vertexName = j => `e${"₁₂₃"[j]}`;

function toPixel(canvas, x) {
  let h = 0, v = 0;
  for (let j = 0; j < 3; j++) { h += x[j] * CORNERS[j][0]; v += x[j] * CORNERS[j][1]; }
  return [(h + SPAN / 2) / SPAN * canvas.width, (1 - (v - LOW) / SPAN) * canvas.height];
}
function toPoint(canvas, px, py) {
  const h = px / canvas.width * SPAN - SPAN / 2, v = (1 - py / canvas.height) * SPAN + LOW;
  const top = v / HEIGHT, right = h + 0.5 * (1 - top);
  return [top, 1 - top - right, right];
}

// A picture of n x n vertices, row by row from the top.
export function imageOfVertices(vertices, n) {
  const image = document.createElement("canvas");
  image.width = image.height = n;
  const brush = image.getContext("2d"), data = brush.createImageData(n, n);
  const rgb = K.COLOURS.map(c => [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16)));
  vertices.forEach((j, i) => data.data.set(j < 0 ? [128, 128, 128, 255] : [...rgb[j], 255], 4 * i));
  brush.putImageData(data, 0, 0);
  return image;
}

class Pen {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }
  // Colours of the page's theme, read at every drawing.
  colours() {
    const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(name).trim();
    this.ink = get("--text") || "#222";
    this.paper = get("--card") || "#fff";
    this.soft = get("--soft") || "#555";
    // On a phone the drawing is shown at half its size: marks and words are drawn larger.
    this.scale = Math.max(1, 0.85 * this.canvas.width / (this.canvas.clientWidth || this.canvas.width));
  }
  outline(points) {
    this.pen.strokeStyle = this.ink;
    this.pen.lineWidth = 1.3 * this.scale;
    this.pen.setLineDash([]);
    this.pen.beginPath();
    points.forEach(([x, y], j) => (j ? this.pen.lineTo(x, y) : this.pen.moveTo(x, y)));
    this.pen.closePath();
    this.pen.stroke();
  }
  trace(points, width, dash) {
    this.pen.strokeStyle = this.ink;
    this.pen.lineWidth = width * this.scale;
    this.pen.setLineDash(dash.map(each => each * this.scale));
    this.pen.beginPath();
    points.forEach((x, i) => {
      const [px, py] = toPixel(this.canvas, x);
      if (i) this.pen.lineTo(px, py); else this.pen.moveTo(px, py);
    });
    this.pen.stroke();
    this.pen.setLineDash([]);
  }
  disc(x, y, radius, colour) {
    this.pen.fillStyle = colour;
    this.pen.strokeStyle = this.paper;
    this.pen.lineWidth = 2;
    this.pen.beginPath();
    this.pen.arc(x, y, radius * this.scale, 0, 2 * Math.PI);
    this.pen.fill();
    this.pen.stroke();
  }
  diamond(x, y) {
    this.pen.fillStyle = "#F0E442";
    this.pen.strokeStyle = "#222";
    this.pen.lineWidth = 1.5;
    this.pen.beginPath();
    const r = 10 * this.scale;
    this.pen.moveTo(x, y - r); this.pen.lineTo(x + r, y); this.pen.lineTo(x, y + r); this.pen.lineTo(x - r, y);
    this.pen.closePath();
    this.pen.fill();
    this.pen.stroke();
  }
  label(text, x, y) {
    this.pen.font = `${17 * this.scale}px system-ui, sans-serif`;
    this.pen.textAlign = "center";
    this.pen.textBaseline = "middle";
    const w = this.pen.measureText(text).width + 10 * this.scale, h = 24 * this.scale;
    this.pen.globalAlpha = 0.85;
    this.pen.fillStyle = this.paper;
    this.pen.fillRect(x - w / 2, y - h / 2, w, h);
    this.pen.globalAlpha = 1;
    this.pen.fillStyle = this.ink;
    this.pen.fillText(text, x, y);
  }
  arrows(state) {
    const n = Math.round(23 / this.scale), head = 6 * this.scale, { canvas, pen } = this;
    pen.strokeStyle = pen.fillStyle = this.soft;
    pen.lineWidth = 1.2 * this.scale;
    pen.setLineDash([]);
    for (let i = 0; i < n; i++) for (let k = 0; k < n; k++) {
      const px = (i + 0.5) / n * canvas.width, py = (k + 0.5) / n * canvas.height, x = toPoint(canvas, px, py);
      const pull = minus(endpoint(x, state.p, state.sigma), x), size = norm(pull);
      if (size < 1e-9) continue;
      const speed = size * rate(x, state.p, state.sigma, state.a), long = canvas.width / n * 0.85 * speed / (speed + 0.8);
      const tip = toPixel(canvas, ahead(x, pull, 1e-4 / size)), angle = Math.atan2(tip[1] - py, tip[0] - px);
      const dx = Math.cos(angle) * long / 2, dy = Math.sin(angle) * long / 2;
      pen.beginPath(); pen.moveTo(px - dx, py - dy); pen.lineTo(px + dx, py + dy); pen.stroke();
      pen.beginPath(); pen.moveTo(px + dx, py + dy);
      for (const turn of [2.6, -2.6]) pen.lineTo(px + dx + head * Math.cos(angle + turn), py + dy + head * Math.sin(angle + turn));
      pen.fill();
    }
  }
}

// onFacts receives the path from the start; onShares the share of prior draws per vertex, once known.
export function makeSimplex(canvas, { onFacts, onShares, onMove = () => {} }) {
  const state = { p: [0.5, 0.3, 0.2], x0: [-0.15, 0.45, 0.7], sigma: 1, a: 1 };
  const show = { basins: true, field: true, other: true };
  const pen = new Pen(canvas), noise = normals(3 * DRAWS);
  let image = null, given = null, job = 0, held = null;

  function paint() {
    const { width, height } = canvas, picture = given || image;
    pen.colours();
    pen.pen.clearRect(0, 0, width, height);
    if (show.basins && picture) {
      pen.pen.imageSmoothingEnabled = false;
      pen.pen.globalAlpha = 0.42;
      pen.pen.drawImage(picture, 0, 0, width, height);
      pen.pen.globalAlpha = 1;
    }
    if (show.field) pen.arrows(state);
    pen.outline(CORNERS.map((_, j) => toPixel(canvas, corner(j))));
    const mine = path(state.x0, state.p, state.sigma, state.a, true);
    const other = path(state.x0, state.p, state.sigma, state.a, false);
    if (!given) {
      pen.trace([state.x0, mine.points.at(-1)], 1, [2, 4]);
      if (show.other) pen.trace(other.points, 1.6, [7, 5]);
      pen.trace(mine.points, 3, []);
    }
    for (let j = 0; j < 3; j++) {
      const [px, py] = toPixel(canvas, corner(j));
      pen.disc(px, py, 8, K.COLOURS[j]);
      pen.label(`${vertexName(j)}  ${state.p[j].toFixed(2)}`, px, py + (j === 0 ? -22 : 28) * pen.scale);
    }
    pen.disc(...toPixel(canvas, state.x0), 7, pen.ink);
    if (!given) pen.diamond(...toPixel(canvas, state.p));
    const star = 1 - (1 + state.sigma * Math.sqrt(2 * Math.log(3))) ** (-1 / state.a);
    onFacts({ mine, other, star, state });
  }
  // Work in slices that leave the page responsive; a later change ends it.
  function inSlices(count, mine, one, done) {
    let i = 0;
    const slice = () => {
      if (mine !== job || !canvas.isConnected) return;
      const until = performance.now() + 20;
      for (; i < count && performance.now() < until; i++) one(i);
      if (i < count) setTimeout(slice); else done();
    };
    slice();
  }
  // A coarse picture first, then a finer one, then the shares.
  function basins(n, mine, done) {
    const vertices = new Array(n * n);
    inSlices(n * n, mine, i => {
      const x = toPoint(canvas, (i % n + 0.5) / n * canvas.width, (Math.floor(i / n) + 0.5) / n * canvas.height);
      vertices[i] = transport(x, state.p, state.sigma);
    }, () => { image = imageOfVertices(vertices, n); paint(); done(); });
  }
  function shares(mine) {
    const count = [0, 0, 0];
    inSlices(DRAWS, mine, i => {
      count[transport([0, 1, 2].map(k => state.sigma * noise[3 * i + k]), state.p, state.sigma)]++;
    }, () => onShares(count.map(c => c / DRAWS), state));
  }
  function refresh() {
    const mine = ++job;
    onShares(null, state);
    paint();
    if (given) return;
    basins(45, mine, () => basins(120, mine, () => shares(mine)));
  }
  function moveTo(what, x) {
    if (what === "x0") {
      state.x0 = x;
      paint();
    } else {
      const inside = x.map(v => Math.max(v, 0.01)), sum = inside[0] + inside[1] + inside[2];
      state.p = inside.map(v => v / sum);
      refresh();
    }
    onMove(state);
  }
  const pick = event => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width * canvas.width, (event.clientY - box.top) / box.height * canvas.height];
  };
  canvas.addEventListener("pointerdown", event => {
    const [px, py] = pick(event), far = x => Math.hypot(px - toPixel(canvas, x)[0], py - toPixel(canvas, x)[1]);
    held = !given && far(state.p) < Math.min(24 * pen.scale, far(state.x0)) ? "p" : "x0";
    canvas.setPointerCapture(event.pointerId);
    moveTo(held, toPoint(canvas, px, py));
  });
  canvas.addEventListener("pointermove", event => { if (held) moveTo(held, toPoint(canvas, ...pick(event))); });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { held = null; });
  canvas.addEventListener("keydown", event => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const what = event.shiftKey && !given ? "p" : "x0", [px, py] = toPixel(canvas, state[what]), far = canvas.width / 60;
    moveTo(what, toPoint(canvas, px + far * by[0], py + far * by[1]));
  });
  return {
    state, show, paint, refresh,
    set: changes => { Object.assign(state, changes); refresh(); },
    // A picture of another map, instead of the exact one.
    give: picture => { given = picture; paint(); },
    moveStart: x0 => { state.x0 = x0; paint(); },
  };
}
