// A Sudoku of any size as a grid of cells; `viewOfGrid` shows the rounds of a trace in it.
import { make, formatScore } from "./dom.js";

const CELL_WORDS = { clue: "clue", committed: "committed", refining: "refining", back: "taken back",
  wrong: "wrong", empty: "empty" };

// A table with one focusable cell; arrows move. `onChoose(cell)` is called on pointer and focus.
export function makeGrid(table, count, onChoose) {
  const size = Math.sqrt(count), box = Math.sqrt(size);
  let chosen = null;
  const place = cell => `row ${Math.floor(cell / size) + 1}, column ${cell % size + 1}`;
  const cells = Array.from({ length: count }, (_, cell) => {
    const row = Math.floor(cell / size), column = cell % size;
    const td = make("td", { tabIndex: cell ? -1 : 0, role: "gridcell" });
    td.classList.toggle("box-right", column % box === box - 1 && column < size - 1);
    td.classList.toggle("box-below", row % box === box - 1 && row < size - 1);
    td.addEventListener("pointerenter", event => { if (event.pointerType === "mouse") choose(cell); });
    td.addEventListener("click", () => td.focus());
    td.addEventListener("focus", () => choose(cell));
    return td;
  });
  table.classList.add("grid");
  table.setAttribute("role", "grid");
  table.style.setProperty("--size", size);
  table.replaceChildren();
  for (let row = 0; row < size; row++) table.insertRow().append(...cells.slice(row * size, (row + 1) * size));
  table.addEventListener("keydown", event => {
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -size, ArrowDown: size }[event.key];
    const from = cells.indexOf(event.target);
    if (!move || from < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const sameRow = Math.floor((from + move) / size) === Math.floor(from / size);
    if (cells[from + move] && (Math.abs(move) === size || sameRow)) cells[from + move].focus();
  });

  const near = (one, other) => {
    const [r1, c1, r2, c2] = [Math.floor(one / size), one % size, Math.floor(other / size), other % size];
    return r1 === r2 || c1 === c2 ||
      (Math.floor(r1 / box) === Math.floor(r2 / box) && Math.floor(c1 / box) === Math.floor(c2 / box));
  };
  function choose(cell) {
    chosen = cell;
    cells.forEach((td, other) => {
      td.classList.toggle("chosen", other === cell);
      td.classList.toggle("near", cell !== null && other !== cell && near(cell, other));
      if (cell !== null) td.tabIndex = other === cell ? 0 : -1;
    });
    if (onChoose) onChoose(cell);
  }

  // looks: {digit, kind, score (null: none), round (share of the rounds in which it was committed)} of every cell.
  function paint(looks) {
    cells.forEach((td, cell) => {
      const { digit, kind, score = null, round = 0, note = "" } = looks[cell];
      td.classList.remove(...Object.keys(CELL_WORDS));
      td.classList.add(kind);
      td.classList.toggle("unscored", score === null);
      td.style.setProperty("--score", score ?? .5);
      td.style.setProperty("--round", round);
      td.textContent = digit || "";
      td.setAttribute("aria-label", `${place(cell)}: ${digit || ""} ${note || CELL_WORDS[kind]}`);
    });
  }
  return { table, cells, paint, place, near, choose, size, chosen: () => chosen };
}

// What cell `cell` shows after a round. Round 0 is the puzzle, with clues that clash. Commits, scores and times are null if a method has none.
export function cellLook(trace, round, cell) {
  const clue = trace.puzzle[cell];
  if (round === 0) {
    const clash = trace.clashes !== undefined && trace.clashes.has(cell);
    return { digit: clue, kind: clash ? "wrong" : clue ? "clue" : "empty", score: null, note: clash ? "clashes" : "" };
  }
  const { values, committed, score } = trace.rounds[round - 1];
  const value = values[cell], settled = committed !== null && committed[cell];
  if (clue && !value && !settled) return { digit: clue, kind: "clue", score: null }; // nothing written there yet
  if (!clue && !value && !settled && score === null) return { digit: 0, kind: "empty", score: null };
  const before = round > 1 ? trace.rounds[round - 2].committed : null;
  const open = before !== null && before[cell] ? "back" : "refining";
  const kind = clue ? (value === clue ? "clue" : "wrong") : settled ? "committed" : open;
  return { digit: value, kind, score: score === null ? null : score[cell] };
}

// The view of {puzzle, rounds}. Rounds may be appended while it is shown.
export function viewOfGrid(table, trace) {
  const count = trace.puzzle.length, holes = () => trace.puzzle.filter(digit => digit === 0).length;
  const anyScore = () => trace.rounds.some(({ score }) => score !== null);
  const view = { kind: "grid", element: table, item: "cell", onChoose: null };
  const grid = makeGrid(table, count, () => view.onChoose && view.onChoose());
  if (!table.hasAttribute("aria-label")) table.setAttribute("aria-label", "Sudoku grid");

  view.grid = grid;
  view.last = () => trace.rounds.length;
  // The round since which a cell is committed: a digit may have been taken back before.
  const committedIn = (cell, round) => {
    const open = ({ committed }) => committed === null || !committed[cell];
    return 2 + trace.rounds.slice(0, round).findLastIndex(open);
  };
  view.paint = round => {
    const spread = Math.max(1, trace.rounds.length - 1);
    const looks = trace.puzzle.map((_, cell) => {
      const look = cellLook(trace, round, cell);
      return look.kind === "committed" ? { ...look, round: (committedIn(cell, round) - 1) / spread } : look;
    });
    grid.paint(looks);
    const empty = holes();
    const { committed, time } = round === 0 ? { committed: null, time: null } : trace.rounds[round - 1];
    const done = committed === null ? 0 : looks.filter(({ kind }) => kind === "committed").length;
    const commits = committed === null ? "" : `: ${done} of ${empty} committed`;
    const clock = time === null ? "" : `, t = ${Number(time.toPrecision(3))}`;
    const status = round === 0 ? `The puzzle: ${count - empty} clues` : `Round ${round} of ${view.last()}${commits}${clock}`;
    return { status, share: done / Math.max(1, empty) };
  };
  view.legend = () => {
    const wrong = trace.rounds.some((_, i) => trace.puzzle.some((_, cell) => cellLook(trace, i + 1, cell).kind === "wrong"));
    const back = trace.rounds.some((_, i) => trace.puzzle.some((_, cell) => cellLook(trace, i + 1, cell).kind === "back"));
    const entry = (kind, words) => make("li", {}, make("span", { className: `swatch ${kind}` }), words);
    return [entry("clue", "clue"), entry("committed", "committed (bold)"),
      entry("refining", `refining${anyScore() ? " (the line is its score)" : ""}`),
      ...(back ? [entry("back", "taken back: committed before")] : []),
      ...(wrong ? [entry("wrong", "a clue copied wrongly")] : [])];
  };
  // The chosen cell in every round.
  view.history = () => {
    const cell = grid.chosen();
    if (cell === null) return null;
    const rows = trace.rounds.map((_, i) => {
      const { digit, kind, score } = cellLook(trace, i + 1, cell);
      return [i + 1, digit || "–", ...(anyScore() ? [formatScore(score)] : []), kind === "wrong" ? "wrong clue" : CELL_WORDS[kind]];
    });
    return { caption: grid.place(cell), head: ["round", "digit", ...(anyScore() ? ["score"] : []), "state"], rows };
  };
  return view;
}
