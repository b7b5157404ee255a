// The studio: rooms by the address's hash, available models, light and dark, login if a token is required.
import { bindTheme, make } from "./viewer/dom.js";
import { ask, loginNeeded } from "./api.js";

// A room is loaded when it is first opened.
const ROOMS = {
  sudoku: { title: "Sudoku", read: () => import("./rooms/sudoku.js") },
  text: { title: "Text", read: () => import("./rooms/text.js") },
  maths: { title: "Maths", read: () => import("./rooms/maths.js") },
  simplex: { title: "Simplex", read: () => import("./rooms/simplex.js") },
  runs: { title: "Runs", read: () => import("./rooms/runs.js") },
  referee: { title: "Referee", read: () => import("./rooms/referee.js") },
};
const room = document.getElementById("room"), nav = document.getElementById("rooms"), spoken = document.getElementById("say");
let close = null, opening = 0, models = null;

// If storage is blocked, the theme is not kept.
const kept = (() => { try { return window.localStorage; } catch { return null; } })();

function address() {
  const [, name = "", query = ""] = location.hash.match(/^#\/(\w*)\??(.*)$/) ?? [];
  return { name: name in ROOMS ? name : "sudoku", params: new URLSearchParams(query) };
}

const context = {
  say: text => { spoken.textContent = text; },
  models: async (name, again = false) => {
    if (models === null || again) models = (await ask("/api/models")).models;
    return models.filter(card => card.room === name);
  },
  // The state of a room in the address, without a new entry in the browser's history.
  remember: (name, values) => {
    const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
    if (address().name === name) history.replaceState(null, "", `#/${name}${query.size ? `?${query}` : ""}`);
  },
};

async function open() {
  const { name, params } = address(), mine = ++opening;
  if (close) close();
  close = null;
  nav.replaceChildren(...Object.entries(ROOMS).map(([each, { title }]) =>
    make("a", { href: `#/${each}`, "aria-current": each === name ? "page" : null }, title)));
  const current = nav.querySelector("[aria-current]");
  if (current && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = current.offsetLeft - 16;
  document.title = `${ROOMS[name].title} · dbtm studio`;
  try {
    const { open: enter } = await ROOMS[name].read();
    if (mine !== opening) return;
    const place = make("div");
    close = await enter(place, params, context) ?? null;
    if (mine !== opening) { if (close) close(); return; }
    room.replaceChildren(...place.childNodes);
  } catch (error) {
    if (mine === opening && error.status !== 401) room.replaceChildren(make("p", { className: "notice bad", role: "alert" }, error.message));
  }
}

function askForToken() {
  const input = make("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
  const wrong = make("p", { className: "outcome bad", role: "alert" });
  const form = make("form", { className: "login card" }, make("h1", {}, "dbtm studio"),
    make("div", { className: "field" }, make("label", { htmlFor: "token" }, "Token"), input,
      make("small", {}, "It was set when this studio was started.")),
    wrong, make("button", { className: "primary", type: "submit" }, "Enter"));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    try {
      await ask("/api/login", { token: input.value });
      open();
    } catch (error) {
      wrong.textContent = error.message;
    }
  });
  room.replaceChildren(form);
  input.focus();
}

bindTheme(document.getElementById("theme"), kept);
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); room.focus(); });
loginNeeded.addEventListener("needed", askForToken);
window.addEventListener("hashchange", async () => {
  await open();
  room.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
open();
