// The room of runs: all runs under the studio's folders, and one of them live.
import { make } from "../viewer/dom.js";
import { makeGrid } from "../viewer/grid.js";
import { ask } from "../api.js";
import { compact, lineChart, thinned } from "../chart.js";
import { choice, NFE, steps } from "../controls.js";
import { makeWork, queuedWords } from "../work.js";

const PACE = 2000; // milliseconds between updates of a live run
const NOT_CURVES = ["step", "seconds"];
const FIRST = ["loss", "eval/score"];

export const duration = seconds => {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
};
const badge = run => make("span", { className: `badge ${run.live ? "live" : "done"}` },
  run.live ? "live" : run.steps !== null && run.step >= run.steps ? "done" : "stopped");

export async function open(place, params, context) {
  let timer = null, closed = false, chosen = params.get("run"), shownRun = null;
  const list = make("div"), detail = make("div");
  place.append(make("header", {}, make("h1", {}, "Runs"), make("p", {}, "Training runs on this machine; curves of live runs update.")), list, detail);

  async function refreshList() {
    const { runs, folders } = await ask("/api/runs");
    if (!runs.length) {
      list.replaceChildren(make("section", { className: "card empty-state" }, make("h2", { className: "title" }, "No runs here yet"),
        make("p", { className: "soft" }, folders.length ? `No runs in ${folders.join(", ")}. ` : "The studio was started without a folder of runs. ",
          "Train something, or start the studio with the folder of your runs:"),
        make("pre", { tabIndex: 0 }, "dbtm train sudoku-mini --out runs/mini\ndbtm studio --runs runs")));
      return;
    }
    if (!runs.some(run => run.name === chosen)) chosen = runs[0].name;
    showList(runs);
    if (shownRun === null || shownRun.name !== chosen) {
      if (shownRun) shownRun.close();
      shownRun = await openRun(chosen, runs.map(run => run.name), detail, context);
    }
  }
  // Redraw only after changes, and keep scroll position and focus.
  const rows = make("tbody"), region = make("div", { className: "scroll card listed", tabIndex: 0, role: "region", "aria-label": "All runs" });
  let drawn = "";
  function showList(runs) {
    const now = JSON.stringify([chosen, runs.map(({ age, ...rest }) => rest)]);
    if (now === drawn) return;
    drawn = now;
    const focused = rows.contains(document.activeElement) ? document.activeElement.textContent : null, at = region.scrollTop;
    const head = ["run", "recipe", "method", "step", "loss", "score", "time left", ""];
    rows.replaceChildren(...runs.map(run => make("tr", { className: run.name === chosen ? "chosen" : "" },
        make("td", {}, make("a", { href: `#/runs?${new URLSearchParams({ run: run.name })}`, "aria-current": run.name === chosen ? "true" : null }, run.name)),
        make("td", {}, run.recipe ?? "–"), make("td", {}, run.method ?? "–"),
        make("td", {}, `${run.step.toLocaleString("en")}${run.steps ? ` of ${run.steps.toLocaleString("en")}` : ""}`),
        make("td", {}, compact(run.loss)), make("td", {}, compact(run.score)), make("td", {}, run.live ? duration(run.seconds_left) : "–"),
        make("td", {}, badge(run)))));
    if (region.parentElement !== list) {
      region.replaceChildren(make("table", { className: "data narrow" }, make("thead", {},
        make("tr", {}, head.map(name => make("th", { scope: "col" }, name || make("span", { className: "visually-hidden" }, "state"))))), rows));
      list.replaceChildren(region);
      setTimeout(() => rows.querySelector(".chosen")?.scrollIntoView({ block: "nearest" })); // once it is on the page
    }
    region.scrollTop = at;
    if (focused !== null) [...rows.querySelectorAll("a")].find(link => link.textContent === focused)?.focus({ preventScroll: true });
  }
  async function tick() {
    if (closed) return;
    try {
      await refreshList();
      if (shownRun) await shownRun.update();
    } catch (error) {
      if (!shownRun) list.replaceChildren(make("p", { className: "notice bad", role: "alert" }, error.message));
    }
    if (!closed) timer = setTimeout(tick, PACE);
  }
  await tick();
  return () => {
    closed = true;
    clearTimeout(timer);
    if (shownRun) shownRun.close();
  };
}

async function openRun(name, others, place, context) {
  const query = `name=${encodeURIComponent(name)}`;
  const curves = new Map();
  let read = 0;
  const facts = make("div"), charts = make("div", { className: "charts" }), notes = make("div"), samples = samplesOf(query, context);
  place.replaceChildren(
    make("section", { className: "section" }, make("h2", {}, name), facts),
    make("section", { className: "section" }, make("h2", {}, "Curves"), charts),
    make("section", { className: "section" }, make("h2", {}, "Checkpoints"), notes),
    make("section", { className: "section" }, make("h2", {}, "Samples over training"), samples.element),
    make("section", { className: "section" }, make("h2", {}, "Configuration"), settingsOf(name, others)));

  function add(records) {
    for (const record of records) {
      for (const [key, value] of Object.entries(record)) {
        if (NOT_CURVES.includes(key)) continue;
        if (!curves.has(key)) curves.set(key, []);
        curves.get(key).push([record.step, value]);
      }
    }
  }
  function drawCurves() {
    const order = key => FIRST.includes(key) ? FIRST.indexOf(key) : key.startsWith("eval/") ? 10 : key === "lr" || key === "steps_per_second" || key === "grad_norm" ? 30 : 20;
    const names = [...curves.keys()].sort((a, b) => order(a) - order(b));
    const words = { lr: "learning rate", steps_per_second: "steps per second", grad_norm: "gradient norm" };
    charts.replaceChildren(...(names.length ? names.map(key => lineChart([{ name: key, points: thinned(curves.get(key)) }],
      { title: words[key] ?? key.replace("eval/", "evaluation: ").replaceAll("_", " "), last: compact(curves.get(key).at(-1)[1]) }))
      : [make("p", { className: "soft" }, "No records yet.")]));
  }
  async function update() {
    let more = true, told = null, changed = false;
    while (more) {
      told = await ask(`/api/runs/one?${query}&from=${read}`);
      const { records, end, restarted } = told.metrics;
      if (restarted) curves.clear();
      add(records);
      changed ||= restarted || records.length > 0;
      more = told.metrics.more && end > read;
      read = end;
    }
    const fact = (words, value) => make("div", {}, make("dt", {}, words), make("dd", {}, value));
    facts.replaceChildren(make("dl", { className: "card run-grid" }, fact("state", badge(told)),
      fact("step", `${told.step.toLocaleString("en")}${told.steps ? ` of ${told.steps.toLocaleString("en")}` : ""}`),
      fact("loss", compact(told.loss)), fact("best score", compact(told.score)), fact("steps per second", compact(told.steps_per_second)),
      fact("time left", told.live ? duration(told.seconds_left) : "–"), fact("task", told.task ?? "–"), fact("method", told.method ?? "–")));
    if (changed || !charts.children.length) drawCurves();
    const scored = new Map((curves.get("eval/score") ?? []).map(([step, score]) => [step, score]));
    const listed = JSON.stringify([told.checkpoints, [...scored]]);
    if (listed === notes.dataset.listed) return;
    notes.dataset.listed = listed;
    notes.replaceChildren(told.checkpoints.length ? make("div", { className: "scroll card", tabIndex: 0, role: "region", "aria-label": "Checkpoints" }, make("table", { className: "data" },
      make("thead", {}, make("tr", {}, ["checkpoint", "score", ""].map(head => make("th", { scope: "col" }, head || make("span", { className: "visually-hidden" }, "best"))))),
      make("tbody", {}, told.checkpoints.map(each => make("tr", { className: each.best ? "best" : "" }, make("td", {}, each.name),
        make("td", {}, compact(each.score ?? scored.get(each.step))), make("td", {}, each.best ? "best" : ""))))))
      : make("p", { className: "soft" }, "None yet."));
  }
  return { name, update, close: samples.close };
}

// Samples of every checkpoint from the same noise.
function samplesOf(query, context) {
  const shown = make("div", { className: "samples-over" }), told = make("p", { className: "soft", role: "status" });
  const work = makeWork(busy => { cancel.disabled = !busy; });
  const nfe = steps("Network evaluations (NFE)", NFE, 4, () => {});
  const cancel = make("button", { type: "button", disabled: true, onclick: () => work.cancel() }, "Cancel");
  const draw = make("button", { type: "button", onclick: run }, "Draw samples");
  async function run() {
    shown.replaceChildren();
    told.textContent = "Loading checkpoints …";
    try {
      const done = await work.run(`/api/runs/samples?${query}`, { nfe: nfe.get() }, {
        queued: ({ position }) => { told.textContent = queuedWords(position); },
        sample: ({ step, text, grid }) => {
          const table = make("table", { "aria-label": `Answer of step ${step}` });
          if (grid) makeGrid(table, grid.length).paint(grid.map(digit => ({ digit, kind: "committed" })));
          shown.append(make("section", { className: "card" }, make("h3", {}, `Step ${step.toLocaleString("en")}`),
            grid ? table : make("pre", { tabIndex: 0 }, text)));
        },
      });
      told.textContent = done === null ? "Cancelled" : `${done.samples} checkpoints, the same noise`;
    } catch (error) {
      told.replaceChildren(make("span", { className: "outcome bad" }, error.message));
    }
  }
  const controls = make("div", { className: "card" }, nfe.element, make("div", { className: "actions" }, draw, cancel), told);
  return { element: make("div", { className: "side" }, controls, shown), close: work.cancel };
}

// Every setting with its meaning; those that a recipe or another run changes are highlighted.
function settingsOf(name, others) {
  const shown = make("div"), words = value => JSON.stringify(value);
  const get = async run => {
    const { settings, note } = await ask(`/api/runs/settings?name=${encodeURIComponent(run)}`);
    if (note) throw new Error(note);
    return settings;
  };
  const against = choice("Show", [["changed", "changed by the recipe"], ["all", "everything"],
    ...others.filter(each => each !== name).map(each => [`run:${each}`, `difference to ${each}`])], "changed", fill);
  async function fill() {
    try {
      const mine = await get(name), other = against.get().startsWith("run:") ? await get(against.get().slice(4)) : null;
      const theirs = other && new Map(other.map(each => [each.name, each.value]));
      let rows = mine.map(({ name: key, value, default: usual, meaning, changed }) => ({ key, value, beside: other ? theirs.get(key) : usual, meaning, changed }));
      if (other) {
        const known = new Set(mine.map(each => each.name));
        rows = rows.concat(other.filter(each => !known.has(each.name)).map(each => ({ key: each.name, value: undefined, beside: each.value, meaning: each.meaning })))
          .filter(({ value, beside }) => words(value) !== words(beside));
      } else if (against.get() === "changed") rows = rows.filter(({ changed }) => changed);
      const heads = ["setting", "this run", other ? "the other" : "default", "meaning"];
      shown.replaceChildren(rows.length ? make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Settings" }, make("table", { className: "data" },
        make("thead", {}, make("tr", {}, heads.map(head => make("th", { scope: "col" }, head)))),
        make("tbody", {}, rows.map(({ key, value, beside, meaning }) => make("tr", {}, make("td", {}, make("code", {}, key)),
          make("td", {}, value === undefined ? "–" : words(value)), make("td", { className: "soft" }, beside === undefined ? "–" : words(beside)), make("td", { className: "soft" }, meaning))))))
        : make("p", { className: "soft" }, "No difference."));
    } catch (error) {
      shown.replaceChildren(make("p", { className: "soft" }, error.message));
    }
  }
  fill();
  return make("div", { className: "card" }, against.element, shown);
}
