// A text token by token; `viewOfSheet` shows the rounds of a trace in it.
import { make, formatScore } from "./dom.js";

const TOKEN_CLASSES = { g: "given", c: "committed", r: "refining", n: "noise" };
const TOKEN_WORDS = { ...TOKEN_CLASSES, n: "nothing yet" };

const seenPart = part => part === "" ? "(part of a character)" : part.replaceAll("\n", "⏎").replaceAll(" ", "␣");

// What token i shows after a round. Round 0 is the given text. Commits, scores and times are null if a method has none.
export function tokenLook(sample, round, i) {
  if (round === 0) {
    const parts = sample.rounds.length ? sample.rounds[0].parts : sample.parts;
    return sample.given[i] ? { part: parts[i], kind: "g", score: null } : { part: "░", kind: "n", score: null };
  }
  const { parts, kinds, score } = sample.rounds[round - 1];
  return { part: parts[i], kind: kinds[i], score: score === null ? null : score[i] };
}

// The view of a sample {given, free, rounds}. Rounds may be appended while it is shown.
export function viewOfSheet(element, sample) {
  const anyScore = () => sample.rounds.some(({ score }) => score !== null);
  const anyOther = () => sample.rounds.some(({ others }) => others);
  const view = { kind: "sheet", element, item: "token", onChoose: null };
  let chosen = null;
  const spans = sample.given.map((_, i) => make("span", {
    onpointerenter: event => { if (event.pointerType === "mouse") view.choose(i); },
    // A click with shift marks a span here; the browser's own selection would cover it.
    onmousedown: event => { if (event.shiftKey && view.onPick) { event.preventDefault(); element.focus({ preventScroll: true }); } },
    onclick: event => { view.choose(i); if (view.onPick) view.onPick(i, event.shiftKey); },
  }));
  element.replaceChildren(...spans);
  if (!element.hasAttribute("aria-label")) element.setAttribute("aria-label", "Text, token by token: arrow keys choose a token");
  element.setAttribute("role", "group");
  element.tabIndex = 0;
  // With the sheet focused, arrows choose a token. If the page uses spans, Enter picks it, and arrows with shift mark.
  element.onkeydown = event => {
    if (event.key === "Enter" && view.onPick && chosen !== null) return view.onPick(chosen, false);
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -spans.length, End: spans.length }[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(spans.length - 1, chosen === null ? 0 : chosen + move));
    if (event.shiftKey && view.onPick && chosen !== null) view.onPick(chosen, true);
    view.choose(to);
    if (event.shiftKey && view.onPick) view.onPick(to, true);
  };

  view.spans = spans;
  view.last = () => sample.rounds.length;
  view.chosen = () => chosen;
  view.choose = i => {
    if (chosen !== null && spans[chosen]) spans[chosen].classList.remove("chosen");
    chosen = i;
    if (i !== null) spans[i].classList.add("chosen");
    if (view.onChoose) view.onChoose();
  };
  const committedIn = i => 1 + sample.rounds.findIndex(({ kinds }) => kinds[i] === "c");
  view.paint = round => {
    const spread = Math.max(1, sample.rounds.length - 1);
    spans.forEach((span, i) => {
      const { part, kind, score } = tokenLook(sample, round, i);
      span.textContent = part;
      span.className = TOKEN_CLASSES[kind];
      span.classList.toggle("chosen", i === chosen);
      span.classList.toggle("marked", Boolean(view.marked && view.marked(i)));
      span.title = score === null || kind === "g" ? TOKEN_WORDS[kind] : `${TOKEN_WORDS[kind]}, score ${formatScore(score)}`;
      span.style.setProperty("--score", score ?? (anyScore() ? 0 : .5));
      if (kind === "c") span.style.setProperty("--round", (committedIn(i) - 1) / spread);
    });
    const { committed, time } = round === 0 ? { committed: null, time: null } : sample.rounds[round - 1];
    const commits = committed === null ? "" : `: ${committed} of ${sample.free} committed`;
    const clock = time === null ? "" : `, t = ${Number(time.toPrecision(3))}`;
    const status = round === 0 ? `${sample.free} tokens to generate` : `Round ${round} of ${view.last()}${commits}${clock}`;
    return { status, share: (committed ?? 0) / Math.max(1, sample.free) };
  };
  view.legend = () => [
    make("li", {}, make("span", { className: "given" }, "given")),
    make("li", {}, make("span", { className: "committed" }, "committed")),
    make("li", {}, make("span", { className: "refining" }, "refining"), anyScore() ? " (paler: a higher score)" : ""),
    make("li", {}, "∎ end of text, ▫ padding, ░ nothing yet"),
  ];
  // The chosen token in every round, with the model's alternatives if the trace has them.
  view.history = () => {
    if (chosen === null) return null;
    const head = ["round", "text", ...(anyScore() ? ["score"] : []), "state"];
    const rows = sample.rounds.map((_, i) => {
      const { part, kind, score } = tokenLook(sample, i + 1, chosen);
      return [i + 1, seenPart(part), ...(anyScore() ? [formatScore(score)] : []), TOKEN_WORDS[kind]];
    });
    const below = sample.rounds.map(({ others }) => others && !sample.given[chosen]
      ? others[chosen].map(([text, p]) => `${seenPart(text)} ${p.toFixed(2)}`).join("   ") : "");
    const note = anyOther() ? "below a token: the most likely ones and their probabilities" : "";
    return { caption: `token ${chosen + 1}`, head, rows, below, note };
  };
  return view;
}
