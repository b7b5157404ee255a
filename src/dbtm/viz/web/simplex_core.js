// The exact flow on three vertices. tests/viz/theory/test_page.py compares this code with dbtm.theory.

// Coefficients of the error function, quadrature nodes and colours: dbtm.viz.theory.page computes them.
export const K = {};

// exp(x^2) erfc(x), from a Chebyshev series in t = 2 / (2 + |x|).
function erfcx(x) {
  if (x < 0) return 2 * Math.exp(x * x) - erfcx(-x);
  const t = 2 / (2 + x), s = 2 * t - 1;
  let d = 0, dd = 0;
  for (let j = K.ERFCX.length - 1; j > 0; j--) { const old = d; d = 2 * s * d - dd + K.ERFCX[j]; dd = old; }
  return t * Math.exp(s * d - dd + K.ERFCX[0]);
}

export function distances(x) {
  const n = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
  return x.map((v) => Math.sqrt(Math.max((1 - v) * (1 - v) + n - v * v, 1e-24)));
}

// The endpoint eta of b = Z (eta - x): softmax of the log currents. For V = 3 the moment M_2 is a closed form.
export function endpoint(x, p, sigma) {
  const r = distances(x), log = [0, 0, 0];
  for (let j = 0; j < 3; j++) {
    const z = (1 - x[j]) / (sigma * r[j]), L = r[j] / sigma;
    const mills = Math.sqrt(Math.PI / 2) * erfcx((L - z) / Math.SQRT2);
    log[j] = Math.log(p[j]) - 3 * Math.log(r[j]) + L * (z - L / 2) + Math.log(L + z + (1 + z * z) * mills);
  }
  return softmax(log);
}

function softmax(log) {
  const top = Math.max(...log), e = log.map((v) => Math.exp(v - top)), sum = e[0] + e[1] + e[2];
  return e.map((v) => v / sum);
}

// Z(x) = sum J / sum nu. The occupation has a fractional moment, so this one is a quadrature around its peak.
export function rate(x, p, sigma, a) {
  const r = distances(x), q = 1 / a, m = 2 - q;
  let J = 0, nu = 0, top = -Infinity;
  const parts = [];
  for (let j = 0; j < 3; j++) {
    const z = (1 - x[j]) / (sigma * r[j]), L = r[j] / sigma;
    const peak = Math.max((z + Math.sqrt(z * z + 4 * m)) / 2, L), low = Math.max(L, peak - 7, 0), width = peak + 7 - low;
    const base = m * Math.log(peak) - peak * (peak / 2 - z);
    let M0 = 0, M1 = 0;
    for (let i = 0; i < K.NODES.length; i++) {
      const y = low + width * K.NODES[i] ** 2;
      const f = K.WEIGHTS[i] * 2 * K.NODES[i] * Math.exp(m * Math.log(y) - y * (y / 2 - z) - base);
      M0 += f; M1 += f * y ** q;
    }
    const scale = Math.log(p[j]) + base + Math.log(width) - 3 * Math.log(r[j] / sigma);
    parts.push([scale, M1, M0 * (r[j] / sigma) ** q / a]);
    top = Math.max(top, scale);
  }
  for (const [scale, j, n] of parts) { J += Math.exp(scale - top) * j; nu += Math.exp(scale - top) * n; }
  return J / nu;
}

function denoiser(clock, x, p, sigma) {
  const alpha = Math.exp(-clock), beta = (1 - alpha) / (alpha * sigma) ** 2;
  return softmax(x.map((v, j) => Math.log(p[j]) + beta * v));
}

export const minus = (e, x) => [e[0] - x[0], e[1] - x[1], e[2] - x[2]];
export const ahead = (x, k, h) => [x[0] + h * k[0], x[1] + h * k[1], x[2] + h * k[2]];
export const norm = (v) => Math.hypot(v[0], v[1], v[2]);

function step(pull, s, x, h) {
  const k1 = pull(s, x), k2 = pull(s + h / 2, ahead(x, k1, h / 2)), k3 = pull(s + h / 2, ahead(x, k2, h / 2));
  const k4 = pull(s + h, ahead(x, k3, h));
  return x.map((v, i) => v + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
}

// T(x): follow dx/dlambda = eta - x until a vertex has captured the trajectory.
export function transport(x, p, sigma) {
  const pull = (_, y) => minus(endpoint(y, p, sigma), y);
  for (let n = 0; n < 400; n++) {
    const eta = endpoint(x, p, sigma), r = distances(x);
    for (let j = 0; j < 3; j++) if (r[j] < 0.25 && Math.SQRT2 * (1 - eta[j]) < 0.1 * r[j] || r[j] < 1e-9) return j;
    x = step(pull, 0, x, 0.15);
  }
  return x.indexOf(Math.max(...x));
}

// A whole trajectory with its arc length; autonomous unless a clock of the time-dependent flow is given.
export function path(x0, p, sigma, a, autonomous) {
  const pull = autonomous ? (_, y) => minus(endpoint(y, p, sigma), y) : (s, y) => minus(denoiser(s, y, p, sigma), y);
  const h = 0.02, points = [x0];
  let x = x0, length = 0, tau = 0, s = 0;
  for (let n = 0; n < 1500; n++) {
    const next = step(pull, s, x, h), middle = x.map((v, i) => (v + next[i]) / 2);
    if (autonomous) tau += h / rate(middle, p, sigma, a);
    length += norm(minus(next, x));
    x = next; s += h; points.push(x);
    if (Math.min(...distances(x)) < 1e-3) break;
  }
  const vertex = x.indexOf(Math.max(...x)), end = [0, 1, 2].map((j) => (j === vertex ? 1 : 0)), last = norm(minus(end, x));
  // From here on dr/ds = -kappa r^(1 - 1/a); with the rate at hand, the rest takes a / Z.
  if (autonomous) tau += a / rate(x, p, sigma, a);
  points.push(end);
  return { vertex, tau, ratio: (length + last) / norm(minus(end, x0)), points };
}

// A small generator with a fixed seed: the same draws at every setting, so that the shares move smoothly.
export function normals(count) {
  let state = 12345;
  const uniform = () => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return (state + 0.5) / 4294967296; };
  return Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
}
