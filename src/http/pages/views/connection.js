// One connection: what it is, its channels, and closing it.
import { del, may, path, session } from '../js/api.js';
import { Form, ask, done } from '../js/dialog.js';
import { bytes, count } from '../js/format.js';
import { Text, useForm } from '../js/form.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Facts, Figure, Figures, Loaded, Panel, Table, Time } from '../js/parts.js';
import { go } from '../js/route.js';
import { List } from '../js/table.js';
import { CHANNEL_COLUMNS } from './channels.js';
import { ConnectionState, client_of } from './connections.js';

function Close({ name, close }) {
  const [values, change] = useForm({ reason: '' });
  const send = () => del(path`connections/${name}`, values.reason ? { 'X-Reason': values.reason } : undefined);
  return html`
    <${Form} close=${close} action="Close it" danger send=${send}>
      <p>The client is told "connection closed by the operator" (320). What it holds unacknowledged goes back to its queues. Most clients connect again.</p>
      <${Text} label="Reason, for the client and the log" value=${values.reason} onChange=${(reason) => change({ reason })} maxlength="200" />
    <//>`;
}

export function Connection({ of: [name] }) {
  const live = useLive(path`connections/${name}`);
  const close = async () => {
    if (await ask('Close this connection?', (end) => html`<${Close} name=${name} close=${end} />`)) {
      done('The connection is closed.');
      go(['connections']);
    }
  };
  const mine = may().administrator || live.data?.user === session.read().name;
  return html`
    <${Title} note="connection" tools=${live.data && mine && html`<button class="danger" onClick=${close}>Close …</button>`}>
      <span class="name">${name}</span><//>
    <${Loaded} live=${live} missing=${html`This connection is gone. <a href="#/connections">All connections</a>`}>${(c) => html`
      <${Figures}>
        <${Figure} label="State" value=${html`<${ConnectionState} of=${c} />`} />
        <${Figure} label="Channels" value=${count(c.channels)} />
        <${Figure} label="In" value=${bytes(c.recv_oct_details?.rate) + '/s'} note=${bytes(c.recv_oct)} />
        <${Figure} label="Out" value=${bytes(c.send_oct_details?.rate) + '/s'} note=${bytes(c.send_oct)} />
      <//>
      <div class="columns">
        <${Panel} title="Connection">
          <${Facts} of=${[['Client', client_of(c)], ['User', c.user], ['Vhost', c.vhost], ['Since', html`<${Time} at=${c.connected_at} />`],
            ['From', `${c.peer_host}:${c.peer_port}`], ['To', c.host && `${c.host}:${c.port}`], ['Not yet sent', c.send_pend > 0 && bytes(c.send_pend)], ['Protocol', c.protocol], ['Log-in by', c.auth_mechanism],
            ['Heartbeat', c.timeout ? `${c.timeout} s` : 'none'], ['Largest frame', bytes(c.frame_max)],
            ['Most channels', count(c.channel_max)], ['TLS', c.ssl ? `${c.ssl_protocol}, ${c.ssl_cipher}` : 'none'],
            ['Name asked for', c.ssl_server_name], ['Certificate of', c.peer_cert_subject], ['Signed by', c.peer_cert_issuer],
            ['Valid', c.peer_cert_validity]]} />
        <//>
        <${Panel} title="What the client says of itself"><${Table} of=${c.client_properties} /><//>
      </div>
      <h2>Channels</h2>
      <${List} what="channels" path=${path`connections/${name}/channels`} columns=${CHANNEL_COLUMNS.filter((k) => k.key !== 'user' && k.key !== 'vhost')}
        row_key=${(k) => k.name} sort="number" empty="It has no channel open." />`}
    <//>`;
}
