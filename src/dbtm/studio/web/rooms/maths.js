// The room of word problems: a question, the program as it is refined, its run in the sandbox, the answer.
import { make, makeFacts } from "../viewer/dom.js";
import { viewOfSheet } from "../viewer/sheet.js";
import { makeViewer } from "../viewer/viewer.js";
import { chosenOptions, choice, samplerFields, setFields, whole } from "../controls.js";
import { makeWork, milliseconds, queuedWords } from "../work.js";
import { noModel } from "./none.js";

export async function open(place, params, context) {
  const cards = await context.models("maths");
  if (!cards.length) return noModel(place, "Maths", "The recipe is made for one GPU (docs/maths.md).",
    "dbtm data gsm8k --synthetic 20000 --plain --length 192 --out data/gsm", "dbtm train gsm-small --data data/gsm --out runs/gsm", "dbtm studio runs/gsm");
  let viewer = null, sample = null, fields = {};
  const sheet = make("div", { className: "sheet code", "aria-label": "The program, token by token" });
  const told = make("p", { className: "soft", role: "status" }), answer = make("section", { className: "card", hidden: true });
  const stagePlace = make("div"), beside = make("div", { className: "side" });
  const input = make("textarea", { id: "question", rows: 4, value: params.get("q") ?? "",
    placeholder: "A word problem with numbers, or leave this empty for a held-out one." });
  const model = choice("Model", cards.map(card => card.name), params.get("model") ?? cards[0].name, () => fill());
  const seed = whole("Seed", Number(params.get("seed")) || 0, () => {});
  const save = make("a", { className: "button", hidden: true, download: "program.html" }, "Save as HTML");
  const fieldsPlace = make("div", { className: "fields" });
  const card = () => cards.find(each => each.name === model.get()) ?? cards[0];
  function fill() {
    fields = samplerFields(card(), () => {}, ["nfe", "kappa", "scorer", "temperature"]);
    setFields(fields, params);
    fieldsPlace.replaceChildren(...Object.values(fields).map(field => field.element));
  }
  const work = makeWork(busy => { cancel.disabled = !busy; });

  async function run() {
    answer.hidden = save.hidden = true;
    told.textContent = card().state === "ready" ? "Writing a program …" : "Loading the model …";
    context.remember("maths", { q: input.value, seed: seed.get() || null, model: cards.length > 1 ? model.get() : null, ...chosenOptions(fields) });
    const body = { question: input.value.trim() || null, model: model.get(), seed: seed.get(), ...chosenOptions(fields) };
    try {
      const done = await work.run("/api/maths/answer", body, {
        queued: ({ position }) => { told.textContent = queuedWords(position); },
        stage: ({ name }) => { told.textContent = name === "running programs" ? "Running the program in the sandbox …" : "Writing a program …"; },
        note: ({ text }) => context.say(text),
        start: first => {
          card().state = "ready";
          sample = { ...first, rounds: [] };
          viewer = makeViewer(viewOfSheet(sheet, sample));
          stagePlace.replaceChildren(make("p", { className: "question" }, first.question), viewer.player.element);
          beside.replaceChildren(options, viewer.parts.status, viewer.parts.history, viewer.parts.legend);
        },
        round: round => { sample.rounds.push(round); viewer.refresh(sample.rounds.length); },
      });
      if (done === null) { told.textContent = "Cancelled"; return; }
      if (done.last) sample.rounds[Math.max(0, sample.rounds.length - 1)] = done.last;
      viewer.refresh(sample.rounds.length);
      told.textContent = `${done.nfe} NFE, ${milliseconds(done.milliseconds)} with the run in the sandbox`;
      const kind = done.correct === null ? "" : done.correct ? "good" : "bad";
      answer.replaceChildren(make("h2", {}, "Answer"), make("p", { className: `outcome ${kind}` }, done.verdict),
        ...(done.correct === false && done.outcome.kind !== "value" ? [make("p", { className: "soft" }, `The right answer is ${done.answer}.`)] : []),
        make("pre", { className: "program", tabIndex: 0 }, done.program || "(an empty program)"),
        ...(done.outcome.output ? [makeFacts([["printed", done.outcome.output]])] : []));
      answer.hidden = false;
      save.href = `/api/results/${done.result}`;
      save.hidden = false;
    } catch (error) {
      told.replaceChildren(make("span", { className: "outcome bad" }, error.message));
    }
  }
  const cancel = make("button", { type: "button", disabled: true, onclick: () => work.cancel() }, "Cancel");
  const options = make("section", { className: "card" }, make("h2", {}, "Setting"), cards.length > 1 && model.element, fieldsPlace, seed.element);
  fill();
  beside.append(options);
  const keys = event => { if (viewer) viewer.player.onKey(event); };
  document.addEventListener("keydown", keys);
  place.append(make("header", {}, make("h1", {}, "Maths"),
    make("p", {}, "The model writes a small program for a word problem; the program runs in a sandbox, and what it returns is the answer.")),
    make("div", { className: "bench" }, make("div", { className: "side" },
      make("div", { className: "prompt-box" }, make("div", {}, make("label", { htmlFor: "question", className: "small soft" }, "Question"), input),
        make("div", { className: "actions" }, make("button", { type: "button", className: "primary", onclick: run }, "Answer"), cancel,
          make("button", { type: "button", onclick: () => { input.value = ""; seed.set(seed.get() + 1); run(); } }, "A new problem"), save)),
      told, stagePlace, sheet, answer), beside));
  return () => { document.removeEventListener("keydown", keys); work.cancel(); };
}
