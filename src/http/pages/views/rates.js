// The two charts that the overview and a queue share: what is held, and what moves.
import { Chart } from '../js/chart.js';
import { count, rate } from '../js/format.js';
import { RANGES, useHistory } from '../js/history.js';
import { html } from '../js/lib.js';
import { Panel } from '../js/parts.js';
import { route, search_for } from '../js/route.js';
import { useStore } from '../js/use.js';

/** Of a queue the broker keeps an hour, of all together a day. */
export const QUEUE_RANGES = ['10m', '1h'];
export const ALL_RANGES = Object.keys(RANGES);

/** The range that the address names, or the shortest. */
export function useRange(keys) {
  const { search } = useStore(route);
  return keys.includes(search.range) ? search.range : '10m';
}

export const RangeChoice = ({ range, keys }) => html`
  <span class="choice" role="group" aria-label="Time shown">
    ${keys.map((key) => [key, RANGES[key]]).map(([key, [name]]) => html`
      <button key=${key} aria-pressed=${key === range} onClick=${() => search_for({ range: key === '10m' ? '' : key }, true)}>${name}</button>`)}
  </span>`;

const stat = (of, key) => of?.message_stats?.[key + '_details'];
const line = (label, colour, key, dash) => ({
  label, colour, dash, rate: true, value: (o) => stat(o, key)?.rate, details: (o) => stat(o, key),
});
const gauge = (label, colour, key, of) => ({
  label, colour, value: (o) => of(o)?.[key], details: (o) => of(o)?.[key + '_details'],
});

const MOVES = [
  line('published', 'c1', 'publish'),
  line('delivered', 'c2', 'deliver_get'),
  line('acked', 'c3', 'ack'),
  line('put to wait', 'c4', 'retry_scheduled', true),
  line('redelivered', 'c5', 'redeliver', true),
];
const held = (of) => [
  gauge('ready', 'c1', 'messages_ready', of),
  gauge('unacked', 'c2', 'messages_unacknowledged', of),
  gauge('waiting', 'c4', 'messages_delayed', of),
];
const IN_TOTALS = held((o) => o?.queue_totals);
const IN_OBJECT = held((o) => o);

const lines_of = (wanted, history) => wanted.map((w, i) => ({ ...w, values: history.columns[i] ?? [] }));

/** `live` is that of a queue, or with `totals` that of the overview; read with sample_query(range). */
export function RateCharts({ id, live, range, totals = false }) {
  const gauges = totals ? IN_TOTALS : IN_OBJECT;
  const depth = useHistory(id + ' held', live, range, gauges);
  const moves = useHistory(id + ' moves', live, range, MOVES);
  return html`
    <div class="columns even">
      <${Panel}><${Chart} title="Messages" times=${depth.times} lines=${lines_of(gauges, depth)} say=${count} /><//>
      <${Panel}><${Chart} title="Messages a second" times=${moves.times} lines=${lines_of(MOVES, moves)} say=${(v) => rate(v) + '/s'} /><//>
    </div>`;
}
