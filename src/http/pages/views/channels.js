// Channels of all connections.
import { path } from '../js/api.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope } from '../js/live.js';
import { Badge, Count, Name, Rate } from '../js/parts.js';
import { link } from '../js/route.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';

const moved = (key) => (c) => html`<${Rate} of=${c.message_stats?.[key + '_details']?.rate ?? 0} />`;

export const CHANNEL_COLUMNS = [
  { key: 'name', label: 'Channel', sort: 'name',
    cell: (c) => html`<${Name} to=${link(['connections', c.connection_details?.name ?? ''])}>${c.name}<//>` },
  { key: 'user', label: 'User', sort: 'user', cell: (c) => html`<span class="name">${c.user}</span>` },
  { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (c) => html`<span class="name">${c.vhost}</span>` },
  { key: 'mode', label: 'Mode', cell: (c) => html`<span class="badges">
      ${c.confirm && html`<${Badge} title="Publishes are confirmed">confirm<//>`}
      ${c.transactional && html`<${Badge} title="tx: publishes and acknowledgements take effect at commit">tx<//>`}
      ${c.state && c.state !== 'running' && html`<${Badge} kind="warn">${c.state}<//>`}</span>` },
  { key: 'consumers', label: 'Consumers', sort: 'consumer_count', num: true, cell: (c) => html`<${Count} of=${c.consumer_count} />` },
  { key: 'prefetch', label: 'Prefetch', sort: 'prefetch_count', num: true, title: 'Most unacknowledged messages a consumer gets; 0: no limit',
    cell: (c) => html`<${Count} of=${c.prefetch_count || c.global_prefetch_count} />` },
  { key: 'unacked', label: 'Unacked', sort: 'messages_unacknowledged', num: true, cell: (c) => html`<${Count} of=${c.messages_unacknowledged} />` },
  { key: 'unconfirmed', label: 'Unconfirmed', sort: 'messages_unconfirmed', num: true, wide: true, cell: (c) => html`<${Count} of=${c.messages_unconfirmed} />` },
  { key: 'publish', label: 'Publish /s', sort: 'message_stats.publish_details.rate', num: true, cell: moved('publish') },
  { key: 'deliver', label: 'Deliver /s', sort: 'message_stats.deliver_get_details.rate', num: true, cell: moved('deliver_get') },
  { key: 'ack', label: 'Ack /s', sort: 'message_stats.ack_details.rate', num: true, wide: true, cell: moved('ack') },
];

export function Channels() {
  const vhost = useStore(scope);
  return html`
    <${Title}>Channels<//>
    <${List} what="channels" path=${vhost ? path`vhosts/${vhost}/channels` : 'channels'} columns=${CHANNEL_COLUMNS}
      row_key=${(c) => c.name} sort="name" empty="No channel is open: no client is connected, or none has opened a channel yet." />`;
}
