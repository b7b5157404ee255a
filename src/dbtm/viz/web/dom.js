// Elements, numbers and themes. Text is always set as text, as a sample may contain markup.

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !name.includes("-") && name !== "list" && name !== "form") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return node;
}

export const formatScore = score => score === null || score === undefined ? "–" : score.toFixed(3);

// Two columns of names and values, as text.
export function makeFacts(pairs) {
  return make("dl", { className: "facts" }, pairs.map(([name, value]) =>
    make("div", {}, make("dt", {}, String(name)), make("dd", {}, String(value)))));
}

function setTheme(name, button) {
  document.documentElement.dataset.theme = name;
  const other = name === "dark" ? "light" : "dark";
  button.textContent = other[0].toUpperCase() + other.slice(1);
  button.setAttribute("aria-label", `Use the ${other} theme`);
}

// A button for light and dark; `kept` stores the choice if the page may.
export function bindTheme(button, kept = null) {
  const wanted = kept && kept.getItem("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  setTheme(wanted || (system.matches ? "dark" : "light"), button);
  system.addEventListener("change", () => {
    if (!kept || !kept.getItem("theme")) setTheme(system.matches ? "dark" : "light", button);
  });
  button.addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", button);
    if (kept) kept.setItem("theme", document.documentElement.dataset.theme);
  });
}
