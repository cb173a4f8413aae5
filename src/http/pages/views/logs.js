// The broker's log, as it is written.
import { get, query } from '../js/api.js';
import { clock, many, utc } from '../js/format.js';
import { Title } from '../js/layout.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from '../js/lib.js';
import { refresh } from '../js/live.js';
import { Empty, Problem } from '../js/parts.js';
import { useStore } from '../js/use.js';

const LEVELS = ['trace', 'debug', 'info', 'warning', 'error', 'critical'];
const KEPT = 2000;

/** {lines, error}: the last lines of at least this level, and those that come; only what is new is asked for. */
function useTail(level) {
  const seconds = useStore(refresh) > 0 ? 1 : 0;   // lines come as they are written, or only when asked
  const [state, set] = useState({ lines: null, error: null });
  useEffect(() => {
    let ended = false;
    let timer = 0;
    let last = 0;
    let lines = [];
    async function look() {
      try {
        const found = await get(query('logs', { level, after: last, count: last ? KEPT : 500 }));
        if (ended) return;
        // A number that is lower than ours: the broker has begun anew.
        lines = found.last < last ? [] : [...lines, ...found.lines].slice(-KEPT);
        last = found.last < last ? 0 : found.last;
        set({ lines, error: null });
      } catch (error) {
        if (!ended) set({ lines: lines.length ? lines : null, error });
      }
      if (!ended && seconds > 0) timer = setTimeout(() => (document.hidden ? wait() : look()), seconds * 1000);
    }
    const wait = () => { timer = setTimeout(() => (document.hidden ? wait() : look()), 1000); };
    look();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [level, seconds]);
  return state;
}

export function Logs() {
  const [level, set_level] = useState('info');
  const [text, set_text] = useState('');
  const [category, set_category] = useState('');
  const [follow, set_follow] = useState(true);
  const frame = useRef(null);
  const { lines, error } = useTail(level);
  const categories = [...new Set((lines ?? []).map((l) => l.category))].sort();
  const shown = (lines ?? []).filter((l) => (category === '' || l.category === category) &&
    (text === '' || l.text.toLowerCase().includes(text.toLowerCase())));
  useLayoutEffect(() => {
    if (follow && frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, [shown.length, shown[shown.length - 1]?.number, follow]);
  return html`
    <${Title}>Logs<//>
    <div class="toolbar">
      <div class="filter"><input type="search" data-filter aria-label="Filter lines" placeholder="Filter lines  ( / )" value=${text} onInput=${(e) => set_text(e.target.value)} /></div>
      <select aria-label="Least level" onChange=${(e) => set_level(e.target.value)}>
        ${LEVELS.map((l) => html`<option key=${l} value=${l} selected=${l === level}>${l}${l === 'critical' ? '' : ' and worse'}</option>`)}
      </select>
      <select aria-label="Category" onChange=${(e) => set_category(e.target.value)}>
        <option value="" selected=${category === ''}>all categories</option>
        ${categories.map((c) => html`<option key=${c} value=${c} selected=${c === category}>${c}</option>`)}
      </select>
      <label class="check"><input type="checkbox" checked=${follow} onChange=${(e) => set_follow(e.target.checked)} /><span>stay at the newest</span></label>
      <span class="spring" /><span class="quiet">${many(shown.length, 'line')}</span>
    </div>
    <${Problem} error=${error} stale=${lines !== null} />
    ${lines === null ? !error && html`<p class="quiet loading" aria-busy="true">Reading …</p>`
      : shown.length === 0 ? html`<${Empty}>No line of the kept ones fits. The level and the filter decide what is shown; the setting log_level decides what is logged.<//>`
      : html`<div class="log" ref=${frame} tabindex="0" role="log" aria-label="Log" onScroll=${(e) => {
          const at_end = e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 24;
          if (follow && !at_end) set_follow(false);
        }}>
        ${shown.map((l) => html`<div key=${l.number} class="line ${l.level}"><span class="when" title=${utc(l.at)}>${clock(l.at)}</span> <span class="level">${l.level}</span> <span class="category">${l.category}</span> <span class="text">${l.text}</span></div>`)}
      </div>`}`;
}
