// Connections of clients.
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope } from '../js/live.js';
import { Badge, Bytes, Count, Name, Time } from '../js/parts.js';
import { link } from '../js/route.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';
import { path } from '../js/api.js';

/** What the client says it is. */
export function client_of(c) {
  const p = c.client_properties ?? {};
  return [p.connection_name, [p.product, p.version].filter((t) => typeof t === 'string').join(' ')].filter(Boolean).join(' · ');
}

export const ConnectionState = ({ of }) => html`<${Badge} kind=${of.state === 'running' ? 'good' : 'warn'}>${of.state}<//>`;
const oct_rate = (details) => html`<${Bytes} of=${details?.rate ?? 0} />`;

const COLUMNS = [
  { key: 'name', label: 'Connection', sort: 'name', cell: (c) => html`<${Name} to=${link(['connections', c.name])}>${c.name}<//>` },
  { key: 'client', label: 'Client', cell: (c) => html`<span class="name">${client_of(c)}</span>` },
  { key: 'user', label: 'User', sort: 'user', cell: (c) => html`<span class="name">${c.user}</span>` },
  { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (c) => html`<span class="name">${c.vhost}</span>` },
  { key: 'state', label: 'State', sort: 'state', cell: (c) => html`<${ConnectionState} of=${c} />` },
  { key: 'tls', label: 'TLS', wide: true, cell: (c) => (c.ssl ? c.ssl_protocol : html`<span class="quiet">none</span>`) },
  { key: 'channels', label: 'Channels', sort: 'channels', num: true, cell: (c) => html`<${Count} of=${c.channels} />` },
  { key: 'in', label: 'In /s', sort: 'recv_oct_details.rate', num: true, cell: (c) => oct_rate(c.recv_oct_details) },
  { key: 'out', label: 'Out /s', sort: 'send_oct_details.rate', num: true, cell: (c) => oct_rate(c.send_oct_details) },
  { key: 'since', label: 'Since', sort: 'connected_at', num: true, wide: true, cell: (c) => html`<${Time} at=${c.connected_at} />` },
];

export function Connections() {
  const vhost = useStore(scope);
  return html`
    <${Title}>Connections<//>
    <${List} what="connections" path=${vhost ? path`vhosts/${vhost}/connections` : 'connections'} columns=${COLUMNS}
      row_key=${(c) => c.name} sort="connected_at" reverse=${true}
      empty="No client is connected. A client connects to the AMQP address that the overview lists under Listens." />`;
}
