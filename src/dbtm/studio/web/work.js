// One stream at a time for a lane: starting again or leaving the room cancels what runs.
import { stream } from "./api.js";

// {run(path, body, on), cancel(), busy()}; `onState(busy)` hears of begin and end.
export function makeWork(onState) {
  let running = null;
  const cancel = () => { if (running) running.abort(); };
  async function run(path, body, on) {
    cancel();
    const mine = running = new AbortController();
    onState(true);
    try {
      return await stream(path, body, on, mine.signal);
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    } finally {
      if (running === mine) {
        running = null;
        onState(false);
      }
    }
  }
  return { run, cancel, busy: () => running !== null };
}

export const milliseconds = ms => ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;

export const queuedWords = position => position === 1 ? "Waiting: next in line" : `Waiting: ${position - 1} before this`;

export async function copyText(text, say) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
    return true;
  } catch {
    say("The browser does not let the page copy: take it from the address bar");
    return false;
  }
}
