// Requests to the studio. A failure is an Error whose message is a sentence for the page.

const me = Array.from(crypto.getRandomValues(new Uint8Array(12)), byte => byte.toString(16).padStart(2, "0")).join("");
const HEADERS = { "X-Studio-Client": me };

export const loginNeeded = new EventTarget();

export class Refusal extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

async function request(path, body, signal) {
  const options = body === undefined ? { headers: HEADERS }
    : { method: "POST", headers: { ...HEADERS, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, { ...options, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("the studio does not answer: is it still running?", 0);
  }
  if (response.ok) return response;
  let sentence = `the studio answered with status ${response.status}`;
  try {
    sentence = (await response.json()).error ?? sentence;
  } catch { /* not JSON: the status says it */ }
  if (response.status === 401 && path !== "/api/login") loginNeeded.dispatchEvent(new Event("needed"));
  throw new Refusal(sentence, response.status);
}

export async function ask(path, body, signal) {
  return (await request(path, body, signal)).json();
}

// Server-sent events of a request: `on[event](data)` for each. Resolves to the data of `done`, or null where cancelled.
export async function stream(path, body, on, signal) {
  const response = await request(path, body, signal);
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    text += decoder.decode(value, { stream: !done });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = block.match(/^event: (.*)$/m), data = block.match(/^data: (.*)$/m);
      if (!event || !data) continue;
      const told = JSON.parse(data[1]);
      if (event[1] === "error") throw new Refusal(told.error, told.status);
      if (event[1] === "cancelled") return null;
      if (event[1] === "done") return told;
      if (on[event[1]]) on[event[1]](told);
    }
    if (done) throw new Refusal("the studio ended before the work was done", 0);
  }
}
