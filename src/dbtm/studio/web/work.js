// One stream at a time per lane: starting again or leaving the room cancels the current one.
import { stream } from "./api.js";

// {run(path, body, on), cancel(), busy()}; `onState(busy)` is called at begin and end.
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
    say("The browser blocks copying: copy it from the address bar");
    return false;
  }
}
