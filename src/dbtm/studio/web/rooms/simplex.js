// The room of the simplex: the exact flow, and a learned map beside it.
import { make } from "../viewer/dom.js";
import { K } from "../viewer/simplex_core.js";
import { imageOfVertices, makeSimplex, vertexName } from "../viewer/simplex_view.js";
import { openSimplex } from "../viewer/simplex_page.js";
import { ask, stream } from "../api.js";
import { choice } from "../controls.js";

const percent = share => `${(100 * share).toFixed(1)} %`;

export async function open(place, params, context) {
  Object.assign(K, await ask("/api/simplex/constants"));
  const cards = await context.models("simplex");
  const plane = words => make("canvas", { width: 720, height: 720, tabIndex: 0, role: "img", "aria-label": words });
  const exact = plane("The exact flow: field, basins and a trajectory; arrow keys move the start, with shift the target");
  const beside = make("div", { className: "beside" });
  let view = null, other = null, timer = null, closed = false;

  // -- the learned map ---------------------------------------------------------------------------------------------
  const told = make("p", { className: "soft", role: "status" }), bar = make("div"), numbers = make("div");
  const progress = make("div", { className: "progress", hidden: true }, bar);
  const learnedPlace = make("div", { hidden: true }), maps = make("div", { className: "maps" });
  const train = make("button", { type: "button", className: "primary", onclick: () => act("/api/simplex/learn", { seed: 0 }) }, "Train a map here");
  const stop = make("button", { type: "button", hidden: true, onclick: () => act("/api/simplex/stop", {}) }, "Stop");

  async function act(path, body) {
    try {
      show(await ask(path, body));
    } catch (error) {
      told.replaceChildren(make("span", { className: "outcome bad" }, error.message));
    }
  }
  function show(state) {
    clearTimeout(timer);
    const training = state.state === "training";
    train.hidden = training || state.state === "ready";
    stop.hidden = progress.hidden = !training;
    if (state.state === "idle") told.textContent = "One network evaluation from noise to a vertex, trained from data alone: about a minute on one core.";
    if (state.state === "failed") told.textContent = state.error;
    if (training) {
      told.textContent = `Training: step ${state.step} of ${state.steps}`;
      bar.style.width = `${100 * state.step / state.steps}%`;
    }
    if (state.state === "ready") draw(state);
    if (training && !closed) timer = setTimeout(poll, 700);
  }
  async function poll() {
    try {
      show(await ask("/api/simplex/learned"));
    } catch (error) {
      told.textContent = error.message;
    }
  }
  function draw({ basins, cells, p, frequencies, agreement }) {
    told.textContent = `${percent(agreement)} of prior draws go where the exact flow takes them.`;
    const canvas = plane("The learned map: the vertex of each point");
    learnedPlace.replaceChildren(canvas);
    learnedPlace.hidden = false;
    maps.classList.add("both");
    numbers.replaceChildren(make("table", { className: "numbers" }, make("caption", {}, "20,000 samples, one evaluation each"),
      make("thead", {}, make("tr", {}, ["vertex", "data p", "learned"].map(name => make("th", { scope: "col" }, name)))),
      make("tbody", {}, p.map((value, j) => make("tr", {}, make("td", {}, vertexName(j)), make("td", {}, value.toFixed(3)),
        make("td", {}, frequencies[j].toFixed(3)))))));
    other = makeSimplex(canvas, { onFacts: () => {}, onShares: () => {}, onMove: state => view.moveStart(state.x0) });
    other.state.p = p;
    other.show.field = false;
    other.state.x0 = view.state.x0;
    other.give(imageOfVertices(basins, cells));
    setTimeout(() => { view.paint(); other.paint(); }); // with their new size
  }
  const own = choice("Your own map", [["", "choose …"], ...cards.map(card => card.name)], "", async () => {
    if (!own.get()) return;
    told.textContent = "Loading the model …";
    try {
      draw(await stream("/api/simplex/basins", { model: own.get() }, {}));
    } catch (error) {
      told.replaceChildren(make("span", { className: "outcome bad" }, error.message));
    }
  });

  place.append(
    make("header", {}, make("h1", {}, "Simplex"),
      make("p", {}, "Three tokens, one position: where the exact autonomous flow takes noise, and where a trained map takes it. ",
        "Drag the diamond (the data's probabilities) or the dot (a start); or ",
        make("span", { className: "by-mouse" }, "use the arrow keys, with shift for the diamond."),
        make("span", { className: "by-touch" }, "tap to move the dot."))),
    maps);
  maps.append(
    make("section", { className: "section" }, make("h2", {}, "The exact map"), make("div", { className: "simplex" }, exact, beside)),
    make("section", { className: "section" }, make("h2", {}, "A learned map"),
      make("div", { className: "simplex" },
        learnedPlace,
        make("div", { className: "beside" }, make("section", { className: "card" }, told, progress,
          make("div", { className: "actions" }, train, stop), numbers), cards.length > 0 && make("section", { className: "card" }, own.element)))));
  view = openSimplex(exact, beside, state => { if (other) other.moveStart(state.x0); });
  await poll();
  setTimeout(() => view.refresh()); // once it is on the page
  const themed = new MutationObserver(() => { view.paint(); if (other) other.paint(); });
  themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    closed = true;
    clearTimeout(timer);
    themed.disconnect();
  };
}
