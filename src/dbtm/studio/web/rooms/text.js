// The room of texts: a beginning or a text with holes, completed at one budget or at several side by side.
import { make } from "../viewer/dom.js";
import { viewOfSheet } from "../viewer/sheet.js";
import { makeViewer } from "../viewer/viewer.js";
import { chosenOptions, choice, samplerFields, setFields, steps, tick, whole } from "../controls.js";
import { copyText, makeWork, milliseconds, queuedWords } from "../work.js";
import { noModel } from "./none.js";

const OPTIONS = ["nfe", "temperature", "repetition_penalty", "scorer", "kappa", "top_p"];
const SIDE_BY_SIDE = [1, 2, 4, 16];
const HOLE = /_{2,}/;

export async function open(place, params, context) {
  const cards = await context.models("text");
  if (!cards.length) return noModel(place, "Text", "", "dbtm train text --data DIR --out runs/text", "dbtm studio runs/text");
  let lanes = [], fields = {}, focused = null;
  const lanesPlace = make("div", { className: "sheets" }), beside = make("div", { className: "side one-colour staying" });
  const narrow = matchMedia("(max-width: 60rem)"), rearrange = () => { if (focused) focusLane(focused, true); };

  // -- input -------------------------------------------------------------------------------------------------------
  const input = make("textarea", { id: "prompt", rows: 4, value: params.get("t") ?? "",
    placeholder: "Start a text, or leave this empty. Write ____ for holes to fill." });
  const model = choice("Model", cards.map(card => card.name), params.get("model") ?? cards[0].name, () => { fill(); remember(); });
  const seed = whole("Seed", Number(params.get("seed")) || 0, () => remember());
  const hole = steps("Tokens per hole", ["auto", 1, 2, 3, 4, 6, 8, 12, 16, 24, 32], params.get("hole") ?? "auto", () => remember());
  const showHole = () => { hole.element.hidden = !HOLE.test(input.value); };
  const many = tick(`Same noise at ${SIDE_BY_SIDE.join(", ")} NFE, side by side`, params.has("many"), () => { fill(); remember(); });
  const byRound = tick("Colour tokens by commit round", params.get("colour") !== "state", () => {
    lanes.forEach(lane => lane.viewer.colour(byRound.get()));
    remember();
  });
  const fieldsPlace = make("div", { className: "fields" });
  const card = () => cards.find(each => each.name === model.get()) ?? cards[0];
  function fill() {
    fields = samplerFields(card(), () => remember(), OPTIONS);
    setFields(fields, params);
    many.element.hidden = !("nfe" in fields);
    if (fields.nfe) fields.nfe.element.hidden = many.get();
    fieldsPlace.replaceChildren(...Object.values(fields).map(field => field.element));
  }
  function remember() {
    showHole();
    context.remember("text", { t: input.value, hole: hole.get() === "auto" ? null : hole.get(), seed: seed.get() || null, many: many.get() ? 1 : null,
      colour: byRound.get() ? null : "state", model: cards.length > 1 ? model.get() : null, ...chosenOptions(fields) });
  }
  function makeHole() {
    const { selectionStart: from, selectionEnd: to, value } = input;
    const before = value.slice(0, from), after = value.slice(to);
    const left = before && !/\s$/.test(before) ? " " : "", right = after && !/^[\s.,;:!?]/.test(after) ? " " : "";
    input.value = `${before}${left}____${right}${after}`;
    input.focus();
    input.selectionStart = input.selectionEnd = before.length + left.length + 4;
    remember();
  }
  const given = () => HOLE.test(input.value)
    ? { infill: input.value, ...(hole.get() === "auto" ? {} : { hole: hole.get() }) } : { prompt: input.value };
  input.addEventListener("change", remember);
  input.addEventListener("input", showHole);

  // -- a lane: one budget ------------------------------------------------------------------------------------------
  function makeLane(title) {
    const sheet = make("div", { className: "sheet prose", "aria-label": `${title}: the text, token by token; arrow keys choose a token, Enter marks it` });
    const lane = { sample: null, tokens: null, mark: null, begun: false, sheet };
    const told = make("span", { className: "soft small", role: "status" });
    const stagePlace = make("div", { className: "player-place" });
    const save = make("a", { className: "button", hidden: true, download: "text.html" }, "Save as HTML");
    const again = make("button", { type: "button", hidden: true, onclick: () => regenerate(lane) }, "Regenerate marked");
    const copy = make("button", { type: "button", hidden: true, onclick: () => copyText(lane.text, context.say) }, "Copy text");
    lane.element = make("section", { className: "sheet-lane", "aria-label": title },
      make("div", { className: "head" }, make("h2", { className: "title" }, title), told), sheet, stagePlace,
      make("div", { className: "actions" }, again, copy, save));
    lane.work = makeWork(() => showBusy());

    function showMark() {
      again.hidden = lane.mark === null || lane.tokens === null;
      if (lane.mark) again.textContent = `Regenerate ${lane.mark[1] - lane.mark[0] + 1} marked`;
      lane.viewer.view.spans.forEach((span, i) => span.classList.toggle("marked", lane.viewer.view.marked(i)));
    }
    function build(sample) {
      lane.sample = sample;
      lane.mark = null;
      lane.begun = false;
      const view = viewOfSheet(sheet, sample);
      view.marked = i => lane.mark !== null && i >= lane.mark[0] && i <= lane.mark[1];
      // A first pick begins a span, a second ends it (so does one with shift), a third begins anew; a single marked token
      // that is picked again is no longer marked.
      view.onPick = (i, extend) => {
        const ends = lane.mark !== null && (lane.begun || extend), from = ends ? lane.mark[2] : i;
        const alone = !ends && lane.mark !== null && lane.mark[0] === i && lane.mark[1] === i;
        lane.mark = alone ? null : [Math.min(from, i), Math.max(from, i), from];
        lane.begun = !alone && !ends;
        showMark();
      };
      // Text selected with the mouse is also marked.
      sheet.onpointerup = () => {
        const [from, to] = selectedSpans(sheet, view.spans);
        if (from >= to) return;
        getSelection().removeAllRanges();
        lane.mark = [from, to, from];
        lane.begun = false;
        showMark();
      };
      lane.viewer = makeViewer(view);
      const tell = view.onChoose;
      view.onChoose = () => { focusLane(lane); tell(); };
      lane.viewer.colour(byRound.get());
      stagePlace.replaceChildren(lane.viewer.player.element);
    }
    lane.write = async body => {
      told.textContent = card().state === "ready" ? "Writing …" : "Loading the model …";
      save.hidden = copy.hidden = again.hidden = true;
      lane.tokens = null;
      const clicked = performance.now();
      sheet.classList.add("live");
      try {
        const done = await lane.work.run("/api/text/write", body, {
          queued: ({ position }) => { told.textContent = queuedWords(position); },
          start: sample => {
            card().state = "ready";
            told.textContent = "Writing …";
            build({ ...sample, rounds: [] });
            if (focused === null || focused.viewer === undefined || !lanes.includes(focused)) focusLane(lane);
            else if (focused === lane) focusLane(lane, true);
          },
          round: round => {
            lane.sample.rounds.push(round);
            lane.viewer.refresh(lane.sample.rounds.length);
            if (lane.sample.rounds.length === 1) sheet.dataset.firstRound = String(performance.now() - clicked);
          },
        });
        if (done === null) { if (!lane.work.busy()) told.textContent = "Cancelled"; return; }
        if (done.last) lane.sample.rounds[Math.max(0, lane.sample.rounds.length - 1)] = done.last.others || !lane.sample.rounds.length
          ? done.last : { ...lane.sample.rounds.at(-1), ...done.last };
        lane.viewer.refresh(lane.sample.rounds.length);
        lane.tokens = done.tokens;
        lane.text = done.text;
        told.textContent = `${done.nfe} NFE, ${milliseconds(done.milliseconds)}`;
        save.href = `/api/results/${done.result}`;
        save.hidden = copy.hidden = false;
        if (focused === lane) focusLane(lane, true);
      } catch (error) {
        told.replaceChildren(make("span", { className: "outcome bad" }, error.message));
      } finally {
        if (!lane.work.busy()) sheet.classList.remove("live");
      }
    };
    return lane;
  }
  function regenerate(lane) {
    const [from, to] = lane.mark;
    const tokens = lane.tokens.map((token, i) => i >= from && i <= to ? null : token);
    const settings = { ...chosenOptions(fields), ...(lane.nfe ? { nfe: lane.nfe } : {}) };
    seed.set(seed.get() + 1); // the same noise would write the same words
    remember();
    lane.write({ tokens, model: model.get(), seed: seed.get(), ...settings });
  }
  function focusLane(lane, again = false) {
    if ((focused === lane && !again) || !lane.viewer) return;
    focused = lane;
    const { history, legend } = lane.viewer.parts;
    lanesPlace.querySelectorAll(".told-of").forEach(each => each.remove());
    history.classList.add("told-of");
    beside.replaceChildren(optionsCard, ...(narrow.matches ? [] : [history]), legend);
    if (narrow.matches) lane.sheet.after(history); // a token's history appears at the token
  }
  function showBusy() {
    cancel.disabled = !lanes.some(lane => lane.work.busy());
  }
  function write() {
    lanes.forEach(lane => lane.work.cancel());
    const budgets = many.get() && fields.nfe ? SIDE_BY_SIDE : [null];
    if (lanes.length !== budgets.length || lanes.some((lane, i) => lane.nfe !== budgets[i])) {
      focused = null;
      lanes = budgets.map(nfe => Object.assign(makeLane(nfe === null ? "Text" : `${nfe} NFE`), { nfe }));
      lanesPlace.className = lanes.length > 1 ? "sheets many" : "sheets";
      lanesPlace.replaceChildren(...lanes.map(lane => lane.element));
    }
    remember();
    for (const lane of lanes) {
      const options = { ...chosenOptions(fields), ...(lane.nfe === null ? {} : { nfe: lane.nfe }) };
      lane.write({ ...given(), model: model.get(), seed: seed.get(), ...options });
    }
  }

  const writeButton = make("button", { type: "button", className: "primary", onclick: write }, "Write");
  const cancel = make("button", { type: "button", disabled: true, onclick: () => lanes.forEach(lane => lane.work.cancel()) }, "Cancel");
  const holeButton = make("button", { type: "button", onclick: makeHole }, "Make a hole");
  const other = make("button", { type: "button", onclick: () => { seed.set(seed.get() + 1); write(); } }, "Another");
  const optionsCard = make("section", { className: "card" }, make("h2", {}, "Setting"), cards.length > 1 && model.element,
    many.element, byRound.element, make("hr"), fieldsPlace, hole.element, seed.element);
  fill();
  showHole();
  beside.replaceChildren(optionsCard);
  input.addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); write(); } });
  place.append(
    make("header", {}, make("h1", {}, "Text"),
      make("p", {}, "A small model writes all tokens at once; each further round renoises uncertain tokens and maps again.")),
    make("div", { className: "bench" },
      make("div", { className: "side" },
        make("div", { className: "prompt-box" },
          make("div", {}, make("label", { htmlFor: "prompt", className: "small soft" }, "Your text"), input),
          make("div", { className: "actions" }, writeButton, cancel, holeButton, other)),
        lanesPlace,
        make("p", { className: "hint by-mouse" }, "Point at a token, or choose it, to see what else the model considered, round by round. Mark a span with the mouse, ",
          "or click its first and its last token (keys: arrows and Enter, or shift and arrows), then regenerate it in place."),
        make("p", { className: "hint by-touch" }, "Tap a token to see what else the model considered, round by round. Tap another to mark the span ",
          "from one to the other, then regenerate it in place. The next tap starts a new span.")),
      beside));
  narrow.addEventListener("change", rearrange);
  return () => {
    narrow.removeEventListener("change", rearrange);
    lanes.forEach(lane => lane.work.cancel());
  };
}

// First and last of the selected spans; [0, -1] for none.
function selectedSpans(sheet, spans) {
  const selection = getSelection(), none = [0, -1];
  if (!selection || selection.isCollapsed) return none;
  const range = selection.getRangeAt(0);
  if (!sheet.contains(range.startContainer) || !sheet.contains(range.endContainer)) return none;
  const touched = spans.map((span, i) => {
    const each = document.createRange();
    each.selectNodeContents(span);
    const begins = range.compareBoundaryPoints(Range.START_TO_END, each), ends = range.compareBoundaryPoints(Range.END_TO_START, each);
    return begins > 0 && ends < 0 ? i : -1;
  }).filter(i => i >= 0);
  return touched.length ? [touched[0], touched.at(-1)] : none;
}
