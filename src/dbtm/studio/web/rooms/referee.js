// The room of comparisons: tables and figures of `dbtm referee` folders.
import { make, makeFacts } from "../viewer/dom.js";
import { ask } from "../api.js";
import { compact, lineChart } from "../chart.js";
import { choice } from "../controls.js";

const COLUMNS = [
  ["label", "entry"], ["nfe", "NFE"], ["value", "quality"], ["used", "NFE used"], ["flops_per_sample", "FLOPs per sample"],
  ["seconds_per_sample", "s per sample"], ["seeds", "seeds"],
];

export async function open(place, params, context) {
  const { comparisons, folders } = await ask("/api/referee");
  place.append(make("header", {}, make("h1", {}, "Referee"),
    make("p", {}, "Methods on one network, one trainer and one judge, at equal training cost.")));
  if (!comparisons.length) {
    place.append(make("section", { className: "card empty-state" }, make("h2", { className: "title" }, "No comparison here yet"),
      make("p", { className: "soft" }, folders.length ? `No comparisons in ${folders.join(", ")}. ` : "The studio was started without a folder of comparisons. ",
        "Compare methods, then start the studio with the folder:"),
      make("pre", { tabIndex: 0 }, "dbtm referee markov --out runs/referee\ndbtm studio --runs runs")));
    return null;
  }
  const all = await Promise.all(comparisons.map(name => ask(`/api/referee/one?name=${encodeURIComponent(name)}`)
    .catch(error => ({ name, broken: error.message }))));
  const good = all.filter(each => !each.broken), shown = make("div", { className: "side" });
  const tasks = [...new Set(good.map(each => each.task))];
  const wanted = params.get("name"), first = good.find(each => each.name === wanted) ?? good[0];
  const task = choice("Task", [["", "all"], ...tasks], "", () => {
    folder.fill(names(), names()[0]);
    show();
  });
  const names = () => good.filter(each => !task.get() || each.task === task.get()).map(each => each.name);
  const folder = choice("Comparison", names(), first?.name, show);
  const budget = choice("NFE", [["", "all"]], "", table), method = choice("Method", [["", "all"]], "", () => { draw(); table(); });
  const tablePlace = make("div"), figures = make("div", { className: "charts large" }), about = make("div");
  let now = null, sortBy = "value", down = false;

  function show() {
    now = good.find(each => each.name === folder.get());
    if (!now) return;
    context.remember("referee", { name: now.name });
    sortBy = "value";
    down = !now.metric.lower_is_better;
    const budgets = [...new Set(now.rows.map(row => row.nfe))].filter(nfe => nfe !== null).sort((a, b) => a - b);
    budget.fill([["", "all"], ...budgets.map(String)], "");
    method.fill([["", "all"], ...new Set(now.rows.map(row => row.method))], "");
    const trained = now.entries.map(entry => [entry.label, entry.status, entry.about, compact(entry.training.flops), compact(entry.training.parameters), entry.reasons.join("; ")]);
    about.replaceChildren(makeFacts([["task", now.task], ["measured", now.metric.title], ["better", now.metric.lower_is_better ? "lower" : "higher"],
      ["samples", compact(now.samples)], ...Object.entries(now.budget).filter(([, value]) => value !== null).map(([name, value]) => [`training ${name}`, compact(value)]),
      ["on", now.hardware.join(", ") || "–"]]), now.intervals && make("p", { className: "hint" }, `Intervals: ${now.intervals}`),
      make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Entries" }, make("table", { className: "data" },
        make("thead", {}, make("tr", {}, ["entry", "state", "description", "training FLOPs", "parameters", "failure"].map(head => make("th", { scope: "col" }, head)))),
        make("tbody", {}, trained.map(row => make("tr", {}, row.map((value, i) => make("td", {}, i === 1 ? make("span", { className: `badge ${value}` }, value) : value))))))));
    draw();
    table();
  }
  function draw() {
    const labels = [...new Set(now.rows.map(row => row.label))];
    const wanted = rows => rows.filter(row => !method.get() || row.method === method.get());
    const series = x => labels.map((label, style) => {
      const rows = wanted(now.rows).filter(row => row.label === label && row.value !== null && row[x]).sort((a, b) => a[x] - b[x]);
      return { name: label, style, points: rows.map(row => [row[x], row.value]),
        bars: rows.filter(row => row.low !== null && row.high !== null).map(row => [row[x], row.low, row.high]) };
    }).filter(each => each.points.length);
    figures.replaceChildren(
      lineChart(series("used"), { title: `${now.metric.title} by NFE used`, logX: true, xLabel: "network evaluations used", marks: true, height: 220 }),
      lineChart(series("flops_per_sample"), { title: `${now.metric.title} by FLOPs per sample`, logX: true, xLabel: "FLOPs per sample", marks: true, height: 220 }));
  }
  function table() {
    const rows = now.rows.filter(row => (!budget.get() || String(row.nfe) === budget.get()) && (!method.get() || row.method === method.get()));
    const key = row => row[sortBy] ?? (typeof row.label === "string" && sortBy === "label" ? row.label : null);
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    const head = COLUMNS.map(([name, words]) => make("th", { scope: "col", "aria-sort": sortBy === name ? (down ? "descending" : "ascending") : null },
      make("button", { type: "button", onclick: () => { down = sortBy === name ? !down : false; sortBy = name; table(); } },
        words, sortBy === name ? (down ? " ↓" : " ↑") : "")));
    const quality = row => row.value === null ? "–" : `${compact(row.value)}${row.low === null || row.high === null ? "" : ` (${compact(row.low)} to ${compact(row.high)})`}`;
    tablePlace.replaceChildren(make("div", { className: "scroll card", tabIndex: 0, role: "region", "aria-label": "Measured" }, make("table", { className: "data narrow" },
      make("thead", {}, make("tr", {}, head)),
      make("tbody", {}, rows.map(row => make("tr", {}, make("td", {}, row.label), make("td", {}, row.nfe === null ? "its own" : String(row.nfe)),
        make("td", {}, quality(row)), ...["used", "flops_per_sample", "seconds_per_sample", "seeds"].map(name => make("td", {}, compact(row[name])))))))));
  }
  shown.append(...all.filter(each => each.broken).map(each => make("p", { className: "notice bad" }, `${each.name}: ${each.broken}`)),
    make("section", { className: "card" }, make("div", { className: "run-grid" }, task.element, folder.element, budget.element, method.element)),
    make("h2", { className: "visually-hidden" }, "Figures"), figures, make("h2", { className: "visually-hidden" }, "Numbers"), tablePlace, make("section", { className: "card" }, make("h2", {}, "What was compared"), about));
  place.append(shown);
  show();
  return null;
}
