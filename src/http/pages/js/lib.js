// The one place that knows the libraries.
import { h, render, Fragment } from '../vendor/preact.mjs';
import htm from '../vendor/htm.mjs';

export const html = htm.bind(h);
export { render, Fragment };
export { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from '../vendor/hooks.mjs';

/** A value that components can watch: read(), write(value), watch(fn) -> a function that ends it. */
export function store(value) {
  const watchers = new Set();
  return {
    read: () => value,
    write(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** Something kept in the browser; what cannot be kept (private mode, full) is used until the page goes. */
export const keep = {
  get(where, key) {
    try { return where.getItem('tarrymq.' + key); } catch { return null; }
  },
  set(where, key, value) {
    try {
      if (value === null) where.removeItem('tarrymq.' + key);
      else where.setItem('tarrymq.' + key, value);
    } catch { /* see above */ }
  },
};
