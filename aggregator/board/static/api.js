// Requests and events of the board. Events use fetch, because EventSource cannot send a token.

const API = "api/v1";
const TOKEN = "hubbub-token";
const SILENCE = 12_000; // milliseconds until a silent connection counts as lost; the board sends a beat every 5 s
const PAUSE = 1000; // milliseconds until the next attempt
const EVERY = 10_000; // milliseconds between two looks while the board has no place for the events
const PATIENCE = 10_000; // milliseconds until a request fails

export class ApiError extends Error {
  /** `parameter` names the wrong parameter of the request, and `near` has names near to an unknown one. */
  constructor(status, detail, { parameter, near } = {}) {
    super(detail);
    Object.assign(this, { status, parameter, near });
  }
}

const headers = () => {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

export const remember = (token) => sessionStorage.setItem(TOKEN, token);

/** Returns the JSON at a path, or throws an ApiError. */
export const get = async (path, parameters = {}) => (await request(path, parameters)).json();

/** Returns the table at a path, as CSV. */
export const table = async (path, parameters = {}) => (await request(path, { ...parameters, format: "csv" })).blob();

async function request(path, parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(pairs).toString();
  const url = `${API}/${path}${search ? `?${search}` : ""}`;
  const response = await fetch(url, { headers: headers(), cache: "no-cache", signal: AbortSignal.timeout(PATIENCE) });
  if (response.ok) return response;
  const { detail, ...more } = await response.json();
  throw new ApiError(response.status, detail ?? response.statusText, more);
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Follows the events until the board refuses the token.
 *
 * Calls `on.event(name, data)` for each event, `on.lost(reason)` if the connection breaks, and `on.refused()`.
 * While the board has no place for the events, it calls `on.full()` every 10 s.
 */
export async function listen(on) {
  for (;;) {
    let seconds = null;
    try {
      seconds = await read(on);
      if (seconds === null) on.lost("The board closed the connection");
    } catch (error) {
      if (error.status === 401) return on.refused();
      // At random, as the board does for the streams that it ends, so that not all pages come again together.
      if (error.status === 503) seconds = 30 + 60 * Math.random();
      else on.lost(error instanceof ApiError ? error.message : "No connection to the board");
    }
    if (seconds === null) await sleep(PAUSE);
    else await look(on, 1000 * seconds);
  }
}

async function look(on, milliseconds) {
  for (let left = milliseconds; left > 0; left -= EVERY) {
    on.full();
    await sleep(Math.min(EVERY, left));
  }
}

/** Reads the events. If the board needs the place, returns the seconds until the next attempt, else null. */
async function read(on) {
  const control = new AbortController();
  let timer = setTimeout(() => control.abort(), SILENCE);
  try {
    const response = await fetch(`${API}/events`, { headers: headers(), cache: "no-store", signal: control.signal });
    if (!response.ok) throw new ApiError(response.status, (await response.json()).detail);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return null;
      clearTimeout(timer);
      timer = setTimeout(() => control.abort(), SILENCE);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const [event, data] = fieldsOf(block);
        if (event === "full") return data.retry;
        if (event) on.event(event, data);
      }
    }
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}

function fieldsOf(block) {
  const { event, data } = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return event ? [event, JSON.parse(data)] : [null, null];
}
