// Where we are: the part of the address behind the #, for example #/queues/%2F/orders?tab=waiting. So back, forward,
// reload and a link that is passed on show the same.
import { store } from './lib.js';

function parse() {
  const text = location.hash.replace(/^#\/?/, '');
  const [way, search = ''] = text.split(/\?(.*)/s);
  const decode = (part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  };
  return { parts: way === '' ? [] : way.split('/').map(decode), search: Object.fromEntries(new URLSearchParams(search)) };
}

export const route = store(parse());
addEventListener('hashchange', () => route.write(parse()));

/** link(['queues', vhost, name], {tab: 'waiting'}) -> "#/queues/...". Empty values are left out. */
export function link(parts, search = {}) {
  const pairs = Object.entries(search).filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== false);
  const tail = pairs.length ? '?' + new URLSearchParams(pairs) : '';
  return '#/' + parts.map(encodeURIComponent).join('/') + tail;
}

export function go(parts, search) {
  location.hash = link(parts, search);
}

/** Other parameters at the same place. `replace`: no new entry in the history, for what changes with each key. */
export function search_for(changes, replace = false) {
  const here = route.read();
  const next = link(here.parts, { ...here.search, ...changes });
  if (next === location.hash) return;
  if (replace) {
    history.replaceState(null, '', next);
    route.write(parse());
  } else {
    location.hash = next;
  }
}
