// Every queue that retries: how much waits, when the next is due; and a calculator of schedules.
import { path } from '../js/api.js';
import { Title } from '../js/layout.js';
import { html, useState } from '../js/lib.js';
import { scope } from '../js/live.js';
import { Bytes, Count, Countdown, Panel, QueueLink, Rate } from '../js/parts.js';
import { link, route } from '../js/route.js';
import { List } from '../js/table.js';
import { Tabs } from '../js/parts.js';
import { useStore } from '../js/use.js';
import { Preview, RetryFields } from './schedule.js';

// The list is that of the companions: one for each queue that retries.
const COLUMNS = [
  { key: 'owner', label: 'Queue', sort: 'owner', cell: (q) => html`<${QueueLink} vhost=${q.vhost} name=${q.owner} tab="waiting" />` },
  { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (q) => html`<span class="name">${q.vhost}</span>` },
  { key: 'waiting', label: 'Waiting', sort: 'messages_ready', num: true, cell: (q) => html`<${Count} of=${q.messages_ready} />` },
  { key: 'bytes', label: 'Size', sort: 'message_bytes_ready', num: true, cell: (q) => html`<${Bytes} of=${q.message_bytes_ready} />` },
  { key: 'next', label: 'Next due', sort: 'next_due_at', num: true, cell: (q) => html`<${Countdown} at=${q.next_due_at} />` },
  { key: 'last', label: 'Last due', sort: 'last_due_at', num: true, cell: (q) => html`<${Countdown} at=${q.last_due_at} />` },
  { key: 'in', label: 'Put to wait /s', sort: 'message_stats.retry_scheduled_details.rate', num: true, cell: (q) => html`<${Rate} of=${q.message_stats?.retry_scheduled_details?.rate ?? 0} />` },
  { key: 'out', label: 'Came due /s', sort: 'message_stats.retry_redelivered_details.rate', num: true, cell: (q) => html`<${Rate} of=${q.message_stats?.retry_redelivered_details?.rate ?? 0} />` },
  { key: 'scheduled', label: 'Put to wait', sort: 'retry_stats.scheduled', num: true, wide: true, cell: (q) => html`<${Count} of=${q.retry_stats?.scheduled ?? 0} />` },
  { key: 'postponed', label: 'Postponed', sort: 'retry_stats.postponed', num: true, wide: true, title: 'Due, but the queue was full: one more period', cell: (q) => html`<${Count} of=${q.retry_stats?.postponed ?? 0} />` },
];
const PREFIX = '^amq\\.retry-';
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

function Calculator() {
  const [texts, set] = useState({ min: '500', multiplier: '2', max: '30s', limit: '5' });
  return html`
    <${Panel} title="What a schedule comes to">
      <${RetryFields} values=${texts} change=${(changes) => set({ ...texts, ...changes })} />
      <${Preview} texts=${texts} />
    <//>`;
}

export function Retries() {
  const vhost = useStore(scope);
  const { search } = useStore(route);
  const tab = search.tab === 'calculator' ? 'calculator' : '';
  return html`
    <${Title}>Retries<//>
    <${Tabs} tabs=${[['', 'Queues that retry'], ['calculator', 'Calculator']]} now=${tab} at=${(key) => link(['retries'], { tab: key })} />
    ${tab === 'calculator' ? html`<${Calculator} />` : html`
    <${List} what="queues that retry" path=${vhost ? path`queues/${vhost}` : 'queues'} columns=${COLUMNS} row_key=${(q) => q.vhost + ' ' + q.name}
      sort="messages_ready" reverse=${true}
      name_pattern=${(text, regex) => ({ name: text ? `${PREFIX}.*(?:${regex ? text : escaped(text)})` : PREFIX, use_regex: true })}
      empty=${html`No queue retries. Declare one with retries under <a href="#/queues">Queues</a>, or with the argument <span class="mono">x-delayed-retry-min</span>.`} />`}`;
}
