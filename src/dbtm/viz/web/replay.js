// A file that replays traces: a Sudoku {puzzle, rounds}, or a list of texts.
import { bindTheme, make, makeFacts } from "./dom.js";
import { viewOfGrid } from "./grid.js";
import { viewOfSheet } from "./sheet.js";
import { layOut, makeViewer } from "./viewer.js";

function replay(data) {
  const place = document.getElementById("place"), element = document.getElementById("view");
  const start = Number(location.hash.slice(1)) || 0;
  let viewer = null;
  document.addEventListener("keydown", event => viewer.player.onKey(event));
  function open(view, before = []) {
    viewer = makeViewer(view);
    place.replaceChildren(layOut(viewer, before));
  }
  if (!Array.isArray(data)) {
    open(viewOfGrid(element, data));
    return viewer.refresh(Math.min(start, data.rounds.length));
  }
  const tabs = data.map((_, i) => make("button", { type: "button", onclick: () => turn(i) }, `Sample ${i + 1}`));
  function turn(i) {
    const sample = data[i], first = viewer === null, round = first ? start : viewer.player.at();
    if (!first) viewer.player.stop();
    tabs.forEach((tab, other) => tab.setAttribute("aria-pressed", String(other === i)));
    const question = make("p", { className: "question" }, sample.question);
    open(viewOfSheet(element, sample), [...(tabs.length > 1 ? [make("div", { className: "samples" }, tabs)] : []),
      ...(sample.question ? [question] : [])]);
    viewer.status.parentElement.append(makeFacts(sample.facts));
    viewer.refresh(Math.min(round, sample.rounds.length));
    if (!first) tabs[i].focus(); // it was moved
  }
  return turn(0);
}

bindTheme(document.getElementById("theme"));
replay(JSON.parse(document.getElementById("data").textContent));
