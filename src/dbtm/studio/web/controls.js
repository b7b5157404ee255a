// Labelled fields: each is {element, get, set}; `changed` is called after a user's change.
import { make } from "./viewer/dom.js";

let counter = 0;
const newId = () => `field-${++counter}`;

// A slider over a list of values; "auto" may be one of them.
export function steps(words, values, value, changed, hint = "") {
  const id = newId(), shown = make("output", { htmlFor: id });
  const input = make("input", { type: "range", min: 0, max: values.length - 1, step: 1, id });
  const get = () => values[Number(input.value)];
  const show = () => {
    shown.textContent = String(get());
    input.setAttribute("aria-valuetext", String(get()));
  };
  const set = wanted => {
    const near = values.findIndex(each => String(each) === String(wanted));
    input.value = near >= 0 ? near : 0;
    show();
  };
  input.addEventListener("input", show);
  input.addEventListener("change", changed);
  set(value);
  const element = make("div", { className: "field" },
    make("span", {}, make("label", { htmlFor: id }, words), shown), input, hint && make("small", {}, hint));
  return { element, get, set, input };
}

export function choice(words, options, value, changed) {
  const id = newId();
  const input = make("select", { id });
  const fill = (list, chosen) => {
    input.replaceChildren(...list.map(each => {
      const [name, label] = Array.isArray(each) ? each : [each, each];
      return make("option", { value: name, selected: name === chosen }, label);
    }));
  };
  fill(options, value);
  input.addEventListener("change", changed);
  const element = make("div", { className: "field" }, make("label", { htmlFor: id }, words), input);
  return { element, get: () => input.value, set: wanted => { input.value = wanted; }, fill, input };
}

export function whole(words, value, changed, { min = 0, max = 2 ** 31 - 1 } = {}) {
  const id = newId();
  const input = make("input", { type: "number", id, min, max, step: 1, value, inputMode: "numeric" });
  const get = () => Math.max(min, Math.min(max, Math.round(Number(input.value) || 0)));
  input.addEventListener("change", () => { input.value = get(); changed(); });
  const element = make("div", { className: "field" }, make("label", { htmlFor: id }, words), input);
  return { element, get, set: wanted => { input.value = wanted; }, input };
}

export function tick(words, value, changed) {
  const input = make("input", { type: "checkbox", checked: value });
  input.addEventListener("change", changed);
  return { element: make("label", { className: "check" }, input, words), get: () => input.checked,
    set: wanted => { input.checked = wanted; }, input };
}

export const NFE = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

// Fields for the options of a model's sampler. `auto` uses the checkpoint's value.
export function samplerFields(card, changed, names) {
  const takes = name => names.includes(name) && card && name in card.options;
  const fields = {};
  if (takes("nfe")) fields.nfe = steps("Network evaluations (NFE)", NFE, card.room === "sudoku" ? 4 : card.options.nfe, changed);
  if (takes("kappa")) fields.kappa = steps("Commit threshold κ", ["auto", 0, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .99, .999, 1], "auto", changed);
  if (takes("scorer")) {
    const scorers = ["auto", "confidence", ...(card.quality ? ["quality"] : []), "spread"];
    fields.scorer = choice("Commit order by", scorers.map(name => [name, name === "auto" ? `auto (${card.options.scorer})` : name]), "auto", changed);
  }
  if (takes("temperature")) fields.temperature = steps("Temperature", ["auto", 0, .2, .4, .6, .7, .8, .9, 1, 1.2, 1.5], "auto", changed);
  if (takes("repetition_penalty")) fields.repetition_penalty = steps("Repetition penalty", ["auto", 0, .1, .2, .5, 1, 2], "auto", changed);
  if (takes("top_p")) fields.top_p = steps("Nucleus (top p)", ["auto", .5, .7, .8, .9, .95, 1], "auto", changed);
  if (fields.scorer && fields.kappa) {
    // Spread commits have no threshold.
    const spread = () => (fields.scorer.get() === "auto" ? card.options.scorer : fields.scorer.get()) === "spread";
    const show = () => { fields.kappa.element.hidden = spread(); };
    fields.scorer.input.addEventListener("change", show);
    fields.scorer.shown = show;
    show();
  }
  return fields;
}

// Set fields from the address; other fields keep their values.
export function setFields(fields, params, suffix = "") {
  for (const [name, field] of Object.entries(fields)) if (params.has(name + suffix)) field.set(params.get(name + suffix));
  if (fields.scorer && fields.scorer.shown) fields.scorer.shown();
}

// The chosen options, in the studio's format.
export function chosenOptions(fields) {
  const out = {};
  for (const [name, field] of Object.entries(fields)) if (field.get() !== "auto" && !field.element.hidden) out[name] = field.get();
  return out;
}
