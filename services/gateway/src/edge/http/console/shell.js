// The console's shell: who is signed in, questions to the gateway, and live updates. Pages build on it.

const KEPT = "aip.token";
let token = sessionStorage.getItem(KEPT);

/** An element by id. */
export const el = (id) => document.getElementById(id);

/** Makes an element; children are elements or texts, and texts are never read as HTML. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** A refusal of the gateway. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
    this.details = error?.details ?? {};
  }
}

async function send(path, options = {}) {
  const headers = { ...options.headers, Authorization: `Bearer ${token}` };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refused(response.status, said?.body?.error?.error);
}

/** Reads a path. */
export async function get(path) {
  return (await send(path)).json();
}

/** Posts a JSON body. */
export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

function live(text, state) {
  el("live").textContent = text;
  el("live").className = `live ${state}`;
}

/** Follows a path for ever: calls `told` with each envelope, and `begins` each time that it begins again. */
async function follow(path, begins, told, signal) {
  for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 10000)) {
    try {
      const response = await send(path, { headers: { Accept: "text/event-stream" }, signal });
      begins();
      live("live", "on");
      pause = 250;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        const frames = text.split("\n\n");
        text = frames.pop();
        for (const frame of frames) {
          const data = frame.split("\n").find((line) => line.startsWith("data: "));
          if (data) told(JSON.parse(data.slice(6)));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) return signOut(error.message);
    }
    live("connecting again …", "off");
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

let stopping = new AbortController();

/** Forgets the token and everything that is shown. */
export function signOut(why = "") {
  stopping.abort();
  token = null;
  sessionStorage.removeItem(KEPT);
  el("work").hidden = true;
  el("signout").hidden = true;
  el("signin").hidden = false;
  el("signin-error").textContent = why;
  live("not signed in", "");
  el("token").focus();
}

/** Runs a page: `page.stream` is what it follows, `page.begins` and `page.told` take what comes. */
export function run(page) {
  const start = () => {
    stopping = new AbortController();
    el("signin").hidden = true;
    el("work").hidden = false;
    el("signout").hidden = false;
    follow(page.stream, page.begins, page.told, stopping.signal);
    page.opens?.();
  };
  el("signout").addEventListener("click", () => signOut());
  el("signin-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    el("signin-error").textContent = "";
    token = el("token").value.trim();
    try {
      await get(page.probe);
    } catch (error) {
      token = null;
      el("signin-error").textContent = error instanceof Refused && error.status === 401
        ? "This token is not known here." : error.message;
      return;
    }
    el("token").value = "";
    sessionStorage.setItem(KEPT, token);
    start();
  });
  if (token) start();
  else signOut();
}
