// What is shown follows the broker: a path is read again every few seconds while it is shown and the tab is looked at.
import { get } from './api.js';
import { keep, store, useCallback, useEffect, useRef, useState } from './lib.js';
import { useStore } from './use.js';

const kept = Number(keep.get(localStorage, 'refresh'));
/** Seconds between two looks; 0: only when asked. */
export const refresh = store([0, 2, 5, 30].includes(kept) && keep.get(localStorage, 'refresh') !== null ? kept : 2);
refresh.watch((seconds) => keep.set(localStorage, 'refresh', String(seconds)));

/** The vhost that everything is narrowed to; "": all. */
export const scope = store(keep.get(sessionStorage, 'vhost') ?? '');
scope.watch((vhost) => keep.set(sessionStorage, 'vhost', vhost));

const SHARED_MS = 1000;
const shared_answers = new Map();   // path -> {at, answer}

/** One call for all parts of a page that ask the same at nearly the same time. */
function get_shared(path) {
  const now = Date.now();
  for (const [key, { at }] of shared_answers) if (now - at >= SHARED_MS) shared_answers.delete(key);
  if (!shared_answers.has(path)) shared_answers.set(path, { at: now, answer: get(path) });
  return shared_answers.get(path).answer;
}

/**
 * {data, error, at, path, again()} of a GET; `path` null: nothing is read. While a new path is on its way the old data
 * stays, and after an error too: `error` tells that it is old. With every: false it is read once; shared: many parts of
 * the page want the same.
 */
export function useLive(path, { every = true, headers, shared = false } = {}) {
  const seconds = useStore(refresh);
  const [state, set] = useState({ data: null, error: null, at: 0, path: null });
  const [asked, ask] = useState(0);
  const extra = useRef(headers);
  extra.current = headers;
  const extra_text = JSON.stringify(headers ?? {});

  useEffect(() => {
    if (path === null) return undefined;
    let ended = false;
    let timer = 0;
    const controller = new AbortController();
    async function look() {
      try {
        const data = await (shared ? get_shared(path) : get(path, { signal: controller.signal, headers: extra.current }));
        if (!ended) set({ data, error: null, at: Date.now(), path });
      } catch (error) {
        if (!ended && error.name !== 'AbortError') {
          set((old) => ({ ...old, data: old.path === path ? old.data : null, error, path }));
        }
      }
      wait();
    }
    function wait() {
      if (ended || !every || seconds === 0) return;
      timer = setTimeout(() => (document.hidden ? wait() : look()), seconds * 1000);
    }
    look();
    return () => {
      ended = true;
      clearTimeout(timer);
      controller.abort();
    };
  }, [path, extra_text, every, seconds, asked, shared]);

  const again = useCallback(() => ask((n) => n + 1), []);
  return { ...state, again };
}
