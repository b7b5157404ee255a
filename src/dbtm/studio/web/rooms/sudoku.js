// The room of Sudokus: one puzzle, and one or two lanes that solve it with their own settings.
import { make } from "../viewer/dom.js";
import { viewOfGrid } from "../viewer/grid.js";
import { makeViewer } from "../viewer/viewer.js";
import { ask } from "../api.js";
import { chosenOptions, choice, samplerFields, setFields, steps, whole } from "../controls.js";
import { findClashes, readPuzzle, writePuzzle } from "../puzzle.js";
import { copyText, makeWork, milliseconds, queuedWords } from "../work.js";

const OPTIONS = ["nfe", "kappa", "scorer"];
// Difficulty of a new puzzle: fewest guesses of a search with singles; the first is by number of clues.
const HARDNESS = [["", "by number of clues"], ["1", "tricky: needs a guess"], ["10", "hard: 10 guesses or more"],
  ["30", "very hard: 30 or more"], ["80", "diabolical: 80 or more"]];
const START = "850002400720000009004000000000107002305000900040000000000080070017000000000036040";

export async function open(place, params, context) {
  const cards = await context.models("sudoku");
  const state = { puzzle: readPuzzle(params.get("p") ?? "") ?? readPuzzle(START), past: [] };
  const lanes = [];
  const lanesPlace = make("div", { className: "lanes" }), settings = make("div", { className: "side" });
  const middle = make("div", { className: "side middle" }), bench = make("div", { className: "bench three" });
  const clash = make("p", { className: "outcome bad", role: "status" });
  const busyButtons = { solve: null, cancel: null };

  // -- the puzzle --------------------------------------------------------------------------------------------------
  function setPuzzle(cells, undoable = true) {
    if (undoable) state.past.push(state.puzzle);
    state.puzzle = cells;
    lanes.forEach(lane => lane.reset());
    const { sentence } = findClashes(cells);
    clash.textContent = sentence && `The clues clash: ${sentence}`;
    busyButtons.solve.disabled = Boolean(sentence) || !cards.length;
    buttons.undo.disabled = !state.past.length;
    remember();
  }
  function setCell(cell, digit) {
    const cells = [...state.puzzle];
    cells[cell] = digit;
    setPuzzle(cells);
  }
  function undo() {
    if (state.past.length) setPuzzle(state.past.pop(), false);
    buttons.undo.disabled = !state.past.length;
  }
  function paste(text) {
    const cells = readPuzzle(text);
    if (cells === null) {
      clash.textContent = "The pasted text is not a puzzle: give 81 digits (16 for 4 x 4), 0 or . for empty, in one line or in rows";
      return false;
    }
    setPuzzle(cells);
    context.say(`A puzzle with ${cells.filter(Boolean).length} clues`);
    return true;
  }
  function typed(event, grid) {
    const cell = grid.cells.indexOf(event.target);
    if (cell < 0) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") { event.preventDefault(); return undo(); }
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const size = Math.sqrt(state.puzzle.length);
    const clears = ["0", ".", " ", "Delete", "Backspace"].includes(event.key);
    if (!clears && !(Number(event.key) >= 1 && Number(event.key) <= size)) return;
    event.preventDefault();
    setCell(cell, clears ? 0 : Number(event.key));
    const next = event.key === "Backspace" ? cell - 1 : event.key === "Delete" ? cell : cell + 1;
    if (grid.cells[next]) grid.cells[next].focus();
  }

  // -- lanes -------------------------------------------------------------------------------------------------------
  function makeLane(index) {
    const suffix = index ? String(index + 1) : "";
    const lane = { trace: { puzzle: state.puzzle, rounds: [], clashes: new Set() }, result: null };
    const table = make("table", { className: "editable", "aria-label": index ? "Sudoku grid, second setting" : "Sudoku grid" });
    const told = make("div", { className: "told", role: "status" });
    const save = make("a", { className: "button", hidden: true, download: "sudoku.html" }, "Save as HTML");
    const holder = make("div", { className: "lane" });
    lane.heading = make("h2", { className: "title", hidden: true }, index ? "Second setting" : "First setting");
    const fields = {};
    const model = choice("Model", cards.map(card => card.name), params.get(`model${suffix}`) ?? cards[0]?.name ?? "", () => { fill(); changed(); });
    const seed = whole("Seed", Number(params.get(`seed${suffix}`)) || 0, () => changed());
    const fieldsPlace = make("div", { className: "fields" });
    const card = () => cards.find(each => each.name === model.get()) ?? cards[0];
    function fill() {
      for (const name of Object.keys(fields)) delete fields[name];
      Object.assign(fields, samplerFields(card(), () => changed(), OPTIONS));
      setFields(fields, params, suffix);
      fieldsPlace.replaceChildren(...Object.values(fields).map(field => field.element));
    }
    function changed() {
      lane.reset();
      remember();
    }
    let viewer = null;
    function build() {
      const view = viewOfGrid(table, lane.trace);
      viewer = makeViewer(view);
      table.onkeydown = event => typed(event, view.grid);
      lane.grid = view.grid;
      holder.replaceChildren(lane.heading, table, viewer.player.element, viewer.parts.status);
      viewer.status.parentElement.append(told);
      lane.viewer = viewer;
      if (lane.onBuild) lane.onBuild();
    }
    lane.reset = () => {
      lane.work.cancel();
      const rebuilt = lane.trace.puzzle.length !== state.puzzle.length;
      lane.trace.puzzle = state.puzzle;
      lane.trace.rounds.length = 0;
      lane.trace.clashes = findClashes(state.puzzle).clashing;
      told.replaceChildren();
      save.hidden = true;
      if (rebuilt) build();
      viewer.player.stop();
      viewer.refresh(0);
    };
    lane.work = makeWork(() => showBusy());
    lane.solve = async () => {
      const clicked = performance.now();
      table.classList.add("live");
      lane.reset();
      told.textContent = card().state === "ready" ? "Solving …" : "Loading the model …";
      const body = { puzzle: writePuzzle(state.puzzle), model: model.get(), seed: seed.get(), ...chosenOptions(fields) };
      try {
        const done = await lane.work.run("/api/sudoku/solve", body, {
          queued: ({ position }) => { told.textContent = queuedWords(position); },
          start: () => { card().state = "ready"; told.textContent = "Solving …"; },
          round: round => {
            lane.trace.rounds.push(round);
            viewer.refresh(lane.trace.rounds.length);
            if (lane.trace.rounds.length === 1) table.dataset.firstRound = String(performance.now() - clicked);
          },
        });
        if (done === null) {
          if (!lane.work.busy()) told.textContent = "Cancelled";
          return;
        }
        lane.trace.rounds[lane.trace.rounds.length - 1] = done.last;
        viewer.refresh(lane.trace.rounds.length);
        const cost = `${done.nfe}${done.budget === null ? "" : ` of ${done.budget}`} NFE, ${milliseconds(done.milliseconds)}`;
        const words = done.solved ? `Solved in ${cost}` : `Wrong after ${cost}: ${done.violation}`;
        told.replaceChildren(make("span", { className: `outcome ${done.solved ? "good" : "bad"}` }, words));
        save.href = `/api/results/${done.result}`;
        save.hidden = false;
      } catch (error) {
        told.replaceChildren(make("span", { className: "outcome bad" }, error.message));
      } finally {
        if (!lane.work.busy()) table.classList.remove("live");
      }
    };
    lane.values = () => ({ [`model${suffix}`]: cards.length > 1 ? model.get() : null, [`seed${suffix}`]: seed.get() || null,
      ...Object.fromEntries(Object.entries(chosenOptions(fields)).map(([name, value]) => [name + suffix, value])) });
    lane.settings = make("section", { className: "card" }, make("h2", {}, index ? "Second setting" : "Setting"),
      cards.length > 1 && model.element, fieldsPlace, seed.element, save);
    lane.element = holder;
    lane.params = lane.values;
    fill();
    build();
    return lane;
  }
  function showBusy() {
    const busy = lanes.some(lane => lane.work.busy());
    busyButtons.cancel.disabled = !busy;
  }
  function remember() {
    const compared = lanes.length > 1 ? { compare: 1 } : {};
    context.remember("sudoku", { p: writePuzzle(state.puzzle), ...compared, ...Object.assign({}, ...lanes.map(lane => lane.values())) });
  }
  function arrange() {
    lanesPlace.className = lanes.length > 1 ? "lanes many" : "lanes";
    lanesPlace.replaceChildren(...lanes.map(lane => lane.element));
    const { status, history, legend } = lanes[0].viewer.parts, single = lanes.length === 1;
    bench.classList.toggle("wide", !single);
    lanes.forEach(lane => { lane.heading.hidden = single; });
    if (single) middle.replaceChildren(status, history, legend);
    else lanes.forEach(lane => lane.element.append(lane.viewer.parts.status, lane.viewer.parts.history));
    settings.replaceChildren(puzzleCard, ...lanes.map(lane => lane.settings));
    buttons.compare.setAttribute("aria-pressed", String(lanes.length > 1));
  }
  function compare(wanted) {
    if (wanted && lanes.length === 1) {
      lanes.push(makeLane(1));
      lanes[1].onBuild = arrange;
      lanes[1].reset();
    } else if (!wanted && lanes.length > 1) {
      lanes.pop().work.cancel();
    }
    arrange();
    remember();
  }

  // -- controls ----------------------------------------------------------------------------------------------------
  const button = (words, act, more = {}) => make("button", { type: "button", onclick: act, ...more }, words);
  const buttons = {
    undo: button("Undo", undo, { disabled: true }),
    clear: button("Clear", () => setPuzzle(state.puzzle.map(() => 0))),
    compare: button("Compare", () => compare(lanes.length === 1), { "aria-pressed": "false" }),
    link: button("Copy link", () => copyText(location.href, context.say).then(done => {
      if (!done) { clash.textContent = "The browser blocks copying: copy the link from the address bar"; return; }
      buttons.link.textContent = "Copied";
      setTimeout(() => { buttons.link.textContent = "Copy link"; }, 2000);
    })),
  };
  busyButtons.solve = button("Solve", () => lanes.forEach(lane => lane.solve()), { className: "primary", disabled: !cards.length });
  busyButtons.cancel = button("Cancel", () => lanes.forEach(lane => lane.work.cancel()), { disabled: true });
  const pad = make("div", { className: "pad", role: "group", "aria-label": "Digits for the chosen cell" },
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 0].map(digit => button(digit ? String(digit) : "⌫", () => {
      const cell = lanes[0].grid.chosen();
      if (cell !== null && digit <= Math.sqrt(state.puzzle.length)) setCell(cell, digit);
    }, digit ? {} : { "aria-label": "Empty the cell" })));

  const { built_in: builtIn, clues: range } = await ask("/api/sudoku/puzzles");
  const pick = choice("Built in", [["", "choose …"], ...builtIn.map(({ name, puzzle }) => [puzzle, name])], "", () => {
    if (pick.get()) setPuzzle(readPuzzle(pick.get()));
  });
  const fewest = range["3"][0], most = range["3"][1];
  const clues = steps("Clues", Array.from({ length: most - fewest + 1 }, (_, i) => i + fewest), 30, () => {}, "fewer is harder");
  const difficulty = choice("A new one", HARDNESS, "", () => { clues.element.hidden = difficulty.get() !== ""; });
  const fresh = button("New puzzle", async () => {
    fresh.disabled = true;
    fresh.textContent = "Generating …";
    const slow = setTimeout(() => { fresh.textContent = "Compiling the generator …"; }, 2000); // at first use
    try {
      const seed = crypto.getRandomValues(new Uint32Array(1))[0];
      const kind = difficulty.get() ? { guesses: Number(difficulty.get()) } : { clues: clues.get() };
      setPuzzle(readPuzzle((await ask("/api/sudoku/puzzle", { ...kind, seed })).puzzle));
    } catch (error) {
      clash.textContent = error.message;
    }
    clearTimeout(slow);
    fresh.disabled = false;
    fresh.textContent = "New puzzle";
  });
  const text = make("textarea", { id: "paste", rows: 3, placeholder: "81 characters, or nine lines; 0 or . for empty", spellcheck: false });
  text.addEventListener("input", () => { if (readPuzzle(text.value)) { paste(text.value); text.value = ""; } });
  const puzzleCard = make("section", { className: "card" }, make("h2", {}, "Puzzle"), pick.element, difficulty.element, clues.element,
    make("div", { className: "field" }, fresh),
    make("div", { className: "field" }, make("label", { htmlFor: "paste" }, "Paste one"), text));

  lanes.push(makeLane(0));
  const pasted = event => {
    if (event.target.closest && event.target.closest("textarea, input")) return;
    event.preventDefault();
    paste(event.clipboardData.getData("text"));
  };
  const keys = event => lanes[0].viewer.player.onKey(event);
  document.addEventListener("paste", pasted);
  document.addEventListener("keydown", keys);
  const none = !cards.length && make("p", { className: "notice bad" }, "There is no model for Sudoku here.");
  place.append(
    make("header", {}, make("h1", {}, "Sudoku"),
      make("p", {}, "Type or paste a puzzle, then watch the model solve it: each round is one network evaluation.")),
    ...(none ? [none] : []),
    bench);
  bench.append(
    make("div", { className: "side board" },
      make("div", { className: "actions" }, busyButtons.solve, busyButtons.cancel, buttons.undo, buttons.clear, buttons.compare, buttons.link),
      clash, lanesPlace, pad),
    middle, settings);
  arrange();
  lanes[0].onBuild = arrange;
  lanes[0].reset();
  const { sentence } = findClashes(state.puzzle);
  clash.textContent = sentence && `The clues clash: ${sentence}`;
  if (params.has("compare")) compare(true);
  return () => {
    document.removeEventListener("paste", pasted);
    document.removeEventListener("keydown", keys);
    lanes.forEach(lane => lane.work.cancel());
  };
}
