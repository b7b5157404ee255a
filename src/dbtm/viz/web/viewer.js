// The viewer: a view of a trace (viewOfGrid, viewOfSheet) with its player, status, legend and the history of one item.
import { make } from "./dom.js";
import { makePlayer } from "./player.js";

export function makeViewer(view) {
  const status = make("div", { className: "status", role: "status" });
  const done = make("div");
  const bar = make("div", { className: "bar", "aria-hidden": "true" }, done);
  const legend = make("ul", { className: "legend" });
  const history = make("div", { className: "history", tabIndex: 0, role: "region", "aria-label": `One ${view.item}` });
  const byRound = make("button", { type: "button", "aria-pressed": "false", className: "by-round-button" }, "Colour by round");
  let coloured = false;

  const player = makePlayer(round => {
    const { status: words, share } = view.paint(round);
    status.textContent = words;
    done.style.width = `${100 * share}%`;
    describe();
    return words;
  });
  byRound.addEventListener("click", () => colour(!coloured));

  function colour(wanted) {
    coloured = wanted;
    byRound.setAttribute("aria-pressed", String(wanted));
    view.element.classList.toggle("by-round", wanted);
    explain();
  }
  function explain() {
    const last = Math.max(1, view.last());
    const chips = Array.from({ length: Math.min(last, 24) }, (_, i) => {
      const round = last <= 24 ? i : Math.round(i * (last - 1) / 23);
      const chip = make("span", { className: "by-round-chip" }, String(round + 1));
      chip.style.setProperty("--round", last > 1 ? round / (last - 1) : 0);
      return chip;
    });
    const rounds = coloured ? [make("li", {}, make("span", { className: "chips" }, "committed in round ", ...chips))] : [];
    legend.replaceChildren(...view.legend(), ...rounds);
  }
  // The history of the chosen item, one line per round.
  function describe() {
    const told = view.history();
    if (told === null) {
      history.replaceChildren(make("span", { className: "hint" }, `Choose a ${view.item} to see it in every round.`));
      return;
    }
    const table = make("table", {}, make("caption", {}, told.caption),
      make("thead", {}, make("tr", {}, told.head.map(name => make("th", { scope: "col" }, name)))),
      make("tbody", {}, told.rows.flatMap((row, i) => [
        make("tr", { className: i + 1 === player.at() ? "now" : "" }, row.map(value => make("td", {}, String(value)))),
        ...(told.below && told.below[i] ? [make("tr", { className: "others" }, make("td"), make("td", { colSpan: row.length - 1 }, told.below[i]))] : []),
      ])));
    history.replaceChildren(table, ...(told.note ? [make("p", { className: "hint" }, told.note)] : []));
  }
  // Rounds were added, or the trace is complete.
  function refresh(round = player.at()) {
    player.setLast(view.last());
    explain();
    player.go(round);
  }
  view.onChoose = describe;
  refresh(0);

  // Everything besides the view, for the page to lay out.
  const parts = {
    status: make("section", { className: "card" }, status, bar),
    legend: make("section", { className: "card" }, make("h2", {}, view.kind === "grid" ? "Cells" : "Text"), legend,
      make("div", { className: "row" }, byRound)),
    history: make("section", { className: "card" }, make("h2", {}, `One ${view.item}`), history),
  };
  return { view, player, parts, refresh, colour, status };
}

// Everything in the usual order: the view with its player, and the rest beside it.
export function layOut(viewer, before = []) {
  const { view, player, parts } = viewer;
  return make("div", { className: `viewer of-${view.kind}` },
    make("div", { className: "stage" }, ...before, ...(view.kind === "grid" ? [view.element, player.element] : [player.element, view.element])),
    make("aside", {}, parts.status, parts.legend, parts.history));
}
