// Steps through rounds 0..last: buttons, a slider, arrow keys and space.
import { make } from "./dom.js";

// Milliseconds between rounds: many rounds take half a minute in all.
const pace = last => last > 12 ? Math.max(40, Math.min(450, 30000 / last)) : 1100;

export function makePlayer(show) {
  let shown = 0, last = 0, timer = null;
  const play = make("button", { type: "button", className: "play" }, "Play");
  const back = make("button", { type: "button", className: "step", "aria-label": "One round back" }, "←");
  const next = make("button", { type: "button", className: "step", "aria-label": "One round on" }, "→");
  const slider = make("input", { type: "range", min: "0", max: "0", value: "0", step: "1", "aria-label": "Round" });
  const element = make("div", { className: "player" }, play, back, slider, next);

  function go(round) {
    shown = Math.max(0, Math.min(last, round));
    slider.max = last;
    slider.value = shown;
    back.disabled = shown === 0;
    next.disabled = shown === last;
    play.disabled = last === 0;
    slider.setAttribute("aria-valuetext", show(shown));
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  function step(by) {
    stop();
    go(shown + by);
  }
  function toggle() {
    if (timer) return stop();
    go(shown === last ? 0 : shown + 1);
    if (shown === last) return;
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!element.isConnected) return stop();
      go(shown + 1);
      if (shown === last) stop();
    }, pace(last));
  }
  play.addEventListener("click", toggle);
  back.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));
  slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });

  // Keys pressed outside fields and grids, which handle them themselves.
  function onKey(event) {
    const target = event.target;
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (target.matches("input, textarea, select, [role=gridcell]")) return;
    if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else if (event.key === " " && !target.matches("button, a, summary")) toggle();
    else return;
    event.preventDefault();
  }
  return { element, go, stop, step, onKey, at: () => shown, setLast: rounds => { last = rounds; } };
}
