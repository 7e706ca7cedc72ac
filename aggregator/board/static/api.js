// Asks the board, and listens to it. Fetch, not EventSource: only that can send a token.

const API = "api/v1";
const TOKEN = "hubbub-token";
const SILENCE = 12_000; // the board says something every 5 s
const PAUSE = 1000;
const PATIENCE = 10_000;

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const headers = () => {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

export const remember = (token) => sessionStorage.setItem(TOKEN, token);

/** The JSON at a path; an ApiError says why there is none. */
export const get = async (path, parameters = {}) => (await ask(path, parameters)).json();

/** The table at a path, as CSV. */
export const table = async (path, parameters = {}) => (await ask(path, { ...parameters, format: "csv" })).blob();

async function ask(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(given).toString();
  const url = `${API}/${path}${search ? `?${search}` : ""}`;
  const response = await fetch(url, { headers: headers(), cache: "no-cache", signal: AbortSignal.timeout(PATIENCE) });
  if (!response.ok) throw new ApiError(response.status, (await response.json()).detail ?? response.statusText);
  return response;
}

/** Events for ever: `on.event(name, data)`, `on.lost(reason)` when the line breaks, until one needs a token. */
export async function listen(on) {
  for (;;) {
    try {
      await read(on);
      on.lost("The connection is closed");
    } catch (error) {
      if (error.status === 401) return on.refused();
      on.lost(error instanceof ApiError ? error.message : "The connection is lost");
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

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
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => control.abort(), SILENCE);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) tell(block, on);
    }
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}

function tell(block, on) {
  const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  if (fields.event) on.event(fields.event, JSON.parse(fields.data));
}
