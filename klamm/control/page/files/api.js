// Requests to the control interface, with its token if it asks for one, and the stream of events.

const KEY = "klamm-control-token";

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

// A token in the fragment, as in http://HOST:PORT/#token=TOKEN, is taken over and removed from the address.
export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    keepToken(given);
    history.replaceState(null, "", location.pathname);
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function send(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", credentials: "omit", ...options, headers: headers(options.headers) });
  if (response.ok) return response;
  let reason = `${response.status}`;
  try {
    reason = (await response.json()).error;
  } catch {
    // not an answer of Klamm
  }
  throw new Refused(response.status, reason);
}

export async function ask(method, path, body) {
  const response = await send(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  return response.json();
}

export async function snapshot() {
  const bytes = await (await send("/page/snapshot")).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  return { head, cells: new Uint8Array(bytes, 4 + length) };
}

// Calls `take(name, data)` for each event behind `after`; returns when the stream ends. `heard` is called for every sign
// of life, and `numbered` with the id of each event that was taken.
export async function events(after, take, numbered, signal) {
  const response = await send("/page/events", { headers: { "Last-Event-ID": String(after) }, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const pieces = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    // An event may come in many pieces: they are joined when its end has come.
    let from = 0;
    let joint = pieces.length > 0 && pieces.at(-1).endsWith("\n") && value.startsWith("\n");
    for (;;) {
      const end = joint ? 1 : value.indexOf("\n\n", from);
      if (end < 0) break;
      pieces.push(value.slice(from, end));
      from = joint ? 1 : end + 2;
      joint = false;
      takeEvent(pieces.join(""), take, numbered);
      pieces.length = 0;
    }
    if (from < value.length) pieces.push(value.slice(from));
  }
}

function takeEvent(text, take, numbered) {
  let name = "";
  let data = "";
  let id = null;
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line.startsWith("id: ")) id = Number(line.slice(4));
  }
  if (name) take(name, data);
  if (id !== null) numbered(id);
}
