// Consumers of all queues.
import { path } from '../js/api.js';
import { value_text } from '../js/format.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope } from '../js/live.js';
import { Badge, Count, Name, QueueLink } from '../js/parts.js';
import { link } from '../js/route.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';

export const CONSUMER_COLUMNS = [
  { key: 'queue', label: 'Queue', sort: 'queue.name', cell: (c) => html`<${QueueLink} vhost=${c.queue.vhost} name=${c.queue.name} />` },
  { key: 'vhost', label: 'Vhost', sort: 'queue.vhost', cell: (c) => html`<span class="name">${c.queue.vhost}</span>` },
  { key: 'tag', label: 'Tag', sort: 'consumer_tag', cell: (c) => html`<span class="name mono">${c.consumer_tag}</span>` },
  { key: 'channel', label: 'Channel', cell: (c) => c.channel_details?.connection_name
    ? html`<${Name} to=${link(['connections', c.channel_details.connection_name])}>${c.channel_details.name}<//>`
    : html`<span class="name">${c.channel_details?.name}</span>` },
  { key: 'features', label: 'Kind', cell: (c) => html`<span class="badges">
      ${c.exclusive && html`<${Badge} title="No other consumer on this queue">exclusive<//>`}
      ${!c.ack_required && html`<${Badge} title="Messages are gone once they are sent">no ack<//>`}
      ${c.active === false && html`<${Badge} kind="warn" title="Waits until it is its turn">waiting<//>`}</span>` },
  { key: 'prefetch', label: 'Prefetch', sort: 'prefetch_count', num: true, title: '0: no limit', cell: (c) => html`<${Count} of=${c.prefetch_count} />` },
  { key: 'arguments', label: 'Arguments', wide: true, cell: (c) => html`<span class="name">${Object.entries(c.arguments ?? {}).map(([name, value]) => `${name}=${value_text(value)}`).join(', ')}</span>` },
  { key: 'priority', label: 'Priority', sort: 'priority', num: true, wide: true, cell: (c) => html`<${Count} of=${c.priority} />` },
];
export const consumer_key = (c) => `${c.queue?.name} ${c.consumer_tag} ${c.channel_details?.name}`;

export function Consumers() {
  const vhost = useStore(scope);
  return html`
    <${Title}>Consumers<//>
    <${List} what="consumer tags" path=${vhost ? path`consumers/${vhost}` : 'consumers'} columns=${CONSUMER_COLUMNS} row_key=${consumer_key}
      sort="queue.name" empty="Nobody consumes. Messages stay in their queues until a consumer subscribes (basic.consume)." />`;
}
