// The page of the theory: controls and numbers beside the drawing.
import { bindTheme, make } from "./dom.js";
import { K } from "./simplex_core.js";
import { makeSimplex, vertexName } from "./simplex_view.js";

// Controls, numbers and shares of the exact flow, in `place`, for a drawing on `canvas`.
export function openSimplex(canvas, place, onMove) {
  const out = Object.fromEntries(["vertex", "tau", "ratio", "other", "star"].map(name => [name, make("td")]));
  const rows = [0, 1, 2].map(() => ({ p: make("td"), share: make("td") }));
  const view = makeSimplex(canvas, {
    onMove,
    onFacts: ({ mine, other, star }) => {
      out.vertex.textContent = vertexName(mine.vertex);
      out.tau.textContent = mine.tau.toFixed(3);
      out.ratio.textContent = mine.ratio.toFixed(3);
      out.other.textContent = other.ratio.toFixed(3) + (other.vertex === mine.vertex ? "" : ` (to ${vertexName(other.vertex)})`);
      out.star.textContent = star.toFixed(3);
    },
    onShares: (shares, { p }) => rows.forEach((row, j) => {
      row.p.textContent = p[j].toFixed(3);
      row.share.textContent = shares === null ? "…" : shares[j].toFixed(3);
    }),
  });
  const slider = (name, words, min, max, step, digits) => {
    const shown = make("output", {}, view.state[name].toFixed(digits));
    const input = make("input", { type: "range", min, max, step, value: view.state[name] });
    input.addEventListener("input", () => {
      shown.textContent = Number(input.value).toFixed(digits);
      view.set({ [name]: Number(input.value) });
    });
    return make("label", { className: "slider" }, make("span", {}, words, shown), input);
  };
  const toggle = (name, words) => {
    const input = make("input", { type: "checkbox", checked: true });
    input.addEventListener("change", () => { view.show[name] = input.checked; view.paint(); });
    return make("label", { className: "check" }, input, words);
  };
  const swatch = j => {
    const dot = make("span", { className: "dot" });
    dot.style.background = K.COLOURS[j];
    return dot;
  };
  place.replaceChildren(
    make("section", { className: "card controls" }, slider("sigma", "prior scale σ", 0.3, 3, 0.05, 2),
      slider("a", "schedule exponent a", 1, 3, 0.1, 1), toggle("basins", "basins of T"), toggle("field", "field b"),
      toggle("other", "time-dependent path (dashed)")),
    make("section", { className: "card" }, make("table", { className: "numbers" },
      make("caption", {}, `Share of 2,000 prior draws under T`),
      make("thead", {}, make("tr", {}, ["vertex", "target p", "share"].map(name => make("th", { scope: "col" }, name)))),
      make("tbody", {}, rows.map((row, j) => make("tr", {}, make("td", {}, swatch(j), vertexName(j)), row.p, row.share))))),
    make("section", { className: "card" }, make("table", { className: "numbers" }, make("caption", {}, "From the start x₀"),
      make("tbody", {}, [["T(x₀)", out.vertex], ["hitting time τ", out.tau], ["path / chord, autonomous", out.ratio],
        ["path / chord, time-dependent", out.other], ["commitment time t*", out.star]].map(([name, cell]) =>
        make("tr", {}, make("th", { scope: "row" }, name), cell)))),
    make("p", { className: "hint" }, "T and the paths do not depend on a: the exponent changes the speed only.")),
  );
  view.refresh();
  return view;
}

const themeButton = document.getElementById("theme"), plane = document.getElementById("plane");
if (plane && plane.dataset.page === "simplex") {
  bindTheme(themeButton);
  const opened = openSimplex(plane, document.getElementById("beside"), () => {});
  themeButton.addEventListener("click", () => opened.paint());
}
