// What queues gave up, by reason; where it is now; and bringing it back.
import { path } from '../js/api.js';
import { count } from '../js/format.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope, useLive } from '../js/live.js';
import { Count, QueueLink, Tabs } from '../js/parts.js';
import { link, route } from '../js/route.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';
import { dead_letter_way, useTargets } from './queue_dead.js';
import { Redrives } from './redrive.js';

const REASONS = [['rejected', 'Rejected'], ['delivery_limit', 'Delivery limit'], ['expired', 'Expired'], ['maxlen', 'Queue full'], ['max_age', 'Too old']];
const sum = (counts) => Object.values(counts ?? {}).reduce((a, b) => a + b, 0);

function Targets({ q }) {
  const way = dead_letter_way(q);
  const targets = useTargets(q.vhost, way);
  if (!way) return html`<span class="bad">dropped: no dead-letter exchange</span>`;
  if (targets === undefined) return '…';
  if (targets.length === 0) return html`<span class="bad">nothing bound to ${way.exchange === '' ? '(default)' : way.exchange}</span>`;
  return html`<span class="targets">${targets.slice(0, 3).map((name) => html`<${Target} key=${name} vhost=${q.vhost} name=${name} />`)}
    ${targets.length > 3 && html`<span class="quiet">and ${count(targets.length - 3)} more</span>`}</span>`;
}

function Target({ vhost, name }) {
  const live = useLive(path`queues/${vhost}/${name}` + '?columns=messages_ready', { shared: true });
  return html`<span><${QueueLink} vhost=${vhost} name=${name} tab="dead" /> ${live.error
    ? html`<span class="bad">${live.error.status === 404 ? 'not there' : live.error.message}</span>` : html`<span class="quiet">${count(live.data?.messages_ready)}</span>`}</span>`;
}

const COLUMNS = [
  { key: 'name', label: 'Queue', sort: 'name', cell: (q) => html`<${QueueLink} vhost=${q.vhost} name=${q.name} tab="dead" />` },
  { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (q) => html`<span class="name">${q.vhost}</span>` },
  { key: 'all', label: 'Given up', sort: 'message_stats.dead_lettered', num: true, always: true, cell: (q) => html`<${Count} of=${sum(q.retry_stats?.dead_lettered)} />` },
  ...REASONS.map(([key, label]) => ({ key, label, sort: `retry_stats.dead_lettered.${key}`, num: true, cell: (q) => html`<${Count} of=${q.retry_stats?.dead_lettered?.[key] ?? 0} />` })),
  { key: 'dropped', label: 'Dropped', sort: 'message_stats.dropped', num: true, title: 'No queue took them: lost, and logged',
    cell: (q) => html`<span class=${sum(q.retry_stats?.dropped) ? 'bad' : 'zero'} title=${Object.entries(q.retry_stats?.dropped ?? {}).map(([r, n]) => `${r}: ${n}`).join(', ')}>${count(sum(q.retry_stats?.dropped))}</span>` },
  { key: 'where', label: 'Now in', cell: (q) => (dead_letter_way(q) || sum(q.retry_stats?.dead_lettered) || sum(q.retry_stats?.dropped) ? html`<${Targets} q=${q} />` : '') },
];

export function DeadLetters() {
  const vhost = useStore(scope);
  const { search } = useStore(route);
  const tab = search.tab === 'redrives' ? 'redrives' : '';
  return html`
    <${Title} note=${tab ? '' : 'since the broker started'}>Dead letters<//>
    <${Tabs} tabs=${[['', 'Given up, by queue'], ['redrives', 'Redrives']]} now=${tab} at=${(key) => link(['dead-letters'], { tab: key })} />
    ${tab ? html`<${Redrives} />` : html`
    <${List} what="queues" path=${vhost ? path`queues/${vhost}` : 'queues'} columns=${COLUMNS} row_key=${(q) => q.vhost + ' ' + q.name}
      sort="message_stats.dead_lettered" reverse=${true}
      fixed=${{ columns: 'name,vhost,arguments,effective_policy_definition,retry_stats' }}
      name_pattern=${(text, regex) => (text ? { name: text, use_regex: regex } : {})}
      empty="There is no queue yet." />`}`;
}
