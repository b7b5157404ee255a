// Traces of several methods side by side, moved by one player: a method of many rounds moves by several at a time.
import { bindTheme, make } from "./dom.js";
import { makePlayer } from "./player.js";
import { viewOfGrid } from "./grid.js";
import { viewOfSheet } from "./sheet.js";

function showTraces(traces) {
  const views = traces.map(({ document: trace }) => "puzzle" in trace
    ? viewOfGrid(make("table", {}), trace)
    : viewOfSheet(make("div", { className: "sheet prose" }), trace));
  const notes = traces.map(() => make("p", { className: "hint" }));
  const cards = traces.map(({ label, facts }, i) => make("section", { className: "card" },
    make("h3", {}, label), make("p", { className: "hint" }, facts), views[i].element, notes[i]));
  const most = Math.max(1, ...views.map(view => view.last()));
  const player = makePlayer(round => {
    views.forEach((view, i) => {
      const own = Math.round(round * view.last() / most);
      view.paint(own);
      notes[i].textContent = `evaluation ${own} of ${view.last()}`;
    });
    return `${Math.round(100 * round / most)} % of the evaluations`;
  });
  document.addEventListener("keydown", event => player.onKey(event));
  document.getElementById("controls").replaceChildren(player.element);
  document.getElementById("traces").replaceChildren(...cards);
  player.setLast(most);
  player.go(most);
}

bindTheme(document.getElementById("theme"));
const shownTraces = JSON.parse(document.getElementById("data").textContent);
if (shownTraces.length) showTraces(shownTraces);
