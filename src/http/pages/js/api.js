// Calls to the management API. The credentials are sent by us with each call and by no browser on its own: a page of
// another site cannot make this browser act, and a wrong password opens no dialog of the browser.
import { keep, store } from './lib.js';

/** What went wrong, in the API's own words. status 0: no answer came. */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

let authorization = keep.get(sessionStorage, 'authorization');

/** Who is logged in ({name, tags}), or null. */
export const session = store(null);
/** Why the log-in page is shown again; "" the first time. */
export const farewell = store('');
/** When the broker last answered, and whether the last call got an answer at all. */
export const reach = store({ ok: true, at: 0 });

/** path`queues/${vhost}/${name}`: each value becomes one segment, whatever it holds. */
export function path(texts, ...values) {
  return texts.reduce((out, text, i) => out + encodeURIComponent(values[i - 1]) + text);
}

/** `path` with the parameters that are neither undefined nor "" nor false. */
export function query(base, parameters) {
  const pairs = Object.entries(parameters).filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== false);
  return pairs.length ? base + '?' + new URLSearchParams(pairs) : base;
}

async function reason_of(response) {
  const text = await response.text();
  try {
    const body = JSON.parse(text);
    return body.reason || body.error || `error ${response.status}`;
  } catch {
    return response.status === 404 ? 'not found' : `error ${response.status} ${response.statusText}`.trim();
  }
}

/** A look that takes longer has no answer: a broker that stands still, or a network that swallows all, must not go unseen. */
const PATIENCE_MS = 15000;

/** An AbortSignal of a call: the caller's, and the end of patience (0: none). `over` tells which it was. */
function limit(signal, patience_ms) {
  const controller = new AbortController();
  const out = { signal: controller.signal, over: false, done: () => {} };
  const timer = patience_ms > 0 ? setTimeout(() => { out.over = true; controller.abort(); }, patience_ms) : 0;
  const abort = () => controller.abort();
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort);
  out.done = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  };
  return out;
}

export async function call(method, target, body, { patience_ms = method === 'GET' ? PATIENCE_MS : 0, signal, ...more } = {}) {
  const limited = limit(signal, patience_ms);
  try {
    return await answer_of(method, target, body, { ...more, signal: limited.signal });
  } catch (error) {
    if (!limited.over || error instanceof ApiError) throw error;
    reach.write({ ...reach.read(), ok: false });
    throw new ApiError(0, 'The broker does not answer.');
  } finally {
    limited.done();
  }
}

async function answer_of(method, target, body, { signal, headers = {}, as = authorization }) {
  // A look that was due just after the log-out: the page is about to go, and its end is not awaited.
  if (!as) throw new ApiError(401, 'You are logged out.');
  let response;
  try {
    response = await fetch('api/' + target, {
      method,
      signal,
      credentials: 'omit',   // no cookie, no password that the browser remembers, no dialog after a 401
      cache: 'no-store',
      headers: {
        ...(as ? { Authorization: as } : {}),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    reach.write({ ...reach.read(), ok: false });
    throw new ApiError(0, 'The broker does not answer.');
  }
  reach.write({ ok: true, at: Date.now() });
  if (response.status === 401 && as === authorization && session.read()) {
    log_out('You were logged out: the user or the password has changed.');
  }
  if (!response.ok) throw new ApiError(response.status, await reason_of(response));
  if (response.status === 204) return null;
  const text = await response.text();
  if (!text) return null;
  return response.headers.get('Content-Type')?.startsWith('application/json') ? JSON.parse(text) : text;
}

export const get = (target, options) => call('GET', target, undefined, options);
export const put = (target, body = {}) => call('PUT', target, body);
export const post = (target, body = {}) => call('POST', target, body);
export const del = (target, headers) => call('DELETE', target, undefined, { headers });

/** Throws ApiError. */
export async function log_in(user, password) {
  const bytes = new TextEncoder().encode(user + ':' + password);
  const field = 'Basic ' + btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''));
  const who = await get('whoami', { as: field });
  authorization = field;
  keep.set(sessionStorage, 'authorization', field);
  farewell.write('');
  session.write(who);
}

/** After a reload of the page: the tab still knows. */
export async function resume() {
  if (!authorization) return;
  try {
    session.write(await get('whoami'));
  } catch (error) {
    if (error.status === 401 || error.status === 403) log_out('');
    else farewell.write(error.message);
  }
}

export function log_out(why = '') {
  authorization = null;
  keep.set(sessionStorage, 'authorization', null);
  farewell.write(why);
  session.write(null);
}

/** What the tags of the one who is logged in allow; the API has the last word. */
export function may() {
  const tags = session.read()?.tags ?? [];
  const administrator = tags.includes('administrator');
  return {
    administrator,
    monitoring: administrator || tags.includes('monitoring'),
    policymaker: administrator || tags.includes('policymaker'),
  };
}
