// The delays of a retry schedule: shown, and asked from the broker while one types.
import { query } from '../js/api.js';
import { count, duration, parse_duration } from '../js/format.js';
import { Text } from '../js/form.js';
import { html } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Loaded } from '../js/parts.js';
import { useSettled } from '../js/use.js';

const SHOWN = 24;

/** {schedule, total_ms, deliveries_max} as rows with bars. */
export function Schedule({ of }) {
  const delays = of.schedule ?? [];
  const longest = Math.max(1, ...delays);
  let sum = 0;
  const rows = delays.map((delay, i) => ({ n: i + 1, delay, sum: (sum += delay) }));
  const hidden = rows.length - SHOWN;
  return html`
    <p>${of.deliveries_max !== undefined && of.deliveries_max !== null ? html`At most <b>${count(of.deliveries_max)}</b> deliveries` : 'Deliveries without end'}${
      of.total_ms ? html`, the last one <b>${duration(of.total_ms)}</b> after the first at the earliest` : ''}; then it is dead-lettered.</p>
    ${rows.length > 0 && html`
      <table class="schedule">
        <thead><tr><th scope="col" class="num">Rejection</th><th scope="col" class="num">waits</th><th scope="col" class="num">since the first</th><th scope="col"><span class="unseen">Length</span></th></tr></thead>
        <tbody>${rows.slice(0, SHOWN).map((row) => html`
          <tr key=${row.n}><td class="num">${row.n}</td><td class="num">${duration(row.delay)}</td><td class="num quiet">${duration(row.sum)}</td>
            <td><span class="bar" style=${{ width: `${Math.max(1, (row.delay / longest) * 100)}%` }}></span></td></tr>`)}
        </tbody>
      </table>
      ${hidden > 0 && html`<p class="quiet">and ${count(hidden)} more${delays.slice(SHOWN).every((d) => d === delays[SHOWN]) ? ` of ${duration(delays[SHOWN])} each` : ''}.</p>`}`}`;
}

export const RETRY_KEYS = [
  ['min', 'First delay', 'ms, or 30s, 5m, 2h', true],
  ['multiplier', 'Multiplier', 'empty: n times the first; 1: always the same; 2 and more: grows by it'],
  ['max', 'Longest delay', 'empty: no cap', true],
  ['limit', 'Redeliveries at most', 'then it is dead-lettered'],
  ['jitter', 'Jitter', 'percent around each delay, 0 to 100'],
  ['max_age', 'Oldest', 'a rejection of an older message dead-letters; empty: no limit', true],
];

/** Texts of a form to what the API takes. Throws an Error that names the field. */
export function retry_values(texts) {
  const out = {};
  for (const [key, label, , is_time] of RETRY_KEYS) {
    const text = (texts[key] ?? '').trim();
    if (text === '') continue;
    const value = is_time ? parse_duration(text) : Number(text);
    if (!Number.isInteger(value)) throw new Error(`${label}: "${text}" is no ${is_time ? 'time (500, 30s, 5m, 2h)' : 'whole number'}.`);
    out[key] = value;
  }
  return out;
}

/** `declared`: values that count where a field is left empty, shown in it. */
export const RetryFields = ({ values, change, declared = {} }) => html`
  <div class="row three">${RETRY_KEYS.map(([key, label, hint]) => html`
    <${Text} key=${key} label=${label} hint=${hint} value=${values[key] ?? ''} onChange=${(text) => change({ [key]: text })} placeholder=${declared[key] === undefined || declared[key] === null ? '' : String(declared[key])} />`)}
  </div>`;

/** What the schedule of these texts would be. */
export function Preview({ texts }) {
  let values = {};
  let wrong = '';
  try { values = retry_values(texts); } catch (error) { wrong = error.message; }
  const asked = useSettled(JSON.stringify(values), 300);
  const usable = JSON.parse(asked);
  const live = useLive(usable.min === undefined ? null : query('retry-preview', usable), { every: false });
  if (wrong) return html`<p class="problem">${wrong}</p>`;
  if (usable.min === undefined) return html`<p class="quiet">With a first delay the schedule shows here.</p>`;
  return html`<${Loaded} live=${live} missing="This broker has no preview.">${(data) => html`<${Schedule} of=${data} />`}<//>`;
}
