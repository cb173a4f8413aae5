// Exchanges, and declaring one.
import { path, put } from '../js/api.js';
import { Form, ask, done } from '../js/dialog.js';
import { Check, Choice, Pairs, Text, object_of, useForm } from '../js/form.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope, useLive } from '../js/live.js';
import { Badge, ExchangeLink, Rate } from '../js/parts.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';

export const ExchangeFeatures = ({ of, all = false }) => html`<span class="badges">
  ${all && of.durable && html`<${Badge} title="Survives a restart of the broker">durable<//>`}
  ${!of.durable && html`<${Badge} title="Does not survive a restart of the broker">transient<//>`}
  ${of.auto_delete && html`<${Badge} title="Deleted with its last binding">auto-delete<//>`}
  ${of.internal && html`<${Badge} title="Clients cannot publish to it">internal<//>`}
  ${of.arguments?.['alternate-exchange'] && html`<${Badge} title=${`Unrouted messages go to "${of.arguments['alternate-exchange']}"`}>alternate<//>`}
</span>`;

const COLUMNS = [
  { key: 'name', label: 'Exchange', sort: 'name', cell: (x) => html`<${ExchangeLink} vhost=${x.vhost} name=${x.name} />` },
  { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (x) => html`<span class="name">${x.vhost}</span>` },
  { key: 'type', label: 'Type', sort: 'type', cell: (x) => x.type },
  { key: 'features', label: 'Features', cell: (x) => html`<${ExchangeFeatures} of=${x} />` },
  { key: 'policy', label: 'Policy', sort: 'policy', wide: true, cell: (x) => html`<span class="name">${x.policy ?? ''}</span>` },
  { key: 'in', label: 'In /s', sort: 'message_stats.publish_in_details.rate', num: true, cell: (x) => html`<${Rate} of=${x.message_stats?.publish_in_details?.rate ?? 0} />` },
  { key: 'out', label: 'Out /s', sort: 'message_stats.publish_out_details.rate', num: true, cell: (x) => html`<${Rate} of=${x.message_stats?.publish_out_details?.rate ?? 0} />` },
];

export function useVhosts() {
  const live = useLive('vhosts?columns=name', { every: false });
  return (live.data ?? []).map((v) => v.name);
}

function Declare({ close, vhost }) {
  const vhosts = useVhosts();
  const [v, change] = useForm({ vhost, name: '', type: 'topic', durable: true, auto_delete: false, internal: false, rows: [] });
  const send = async () => {
    const body = { type: v.type, durable: v.durable, auto_delete: v.auto_delete, internal: v.internal, arguments: object_of(v.rows) };
    await put(path`exchanges/${v.vhost}/${v.name}`, body);
    return v.name;
  };
  return html`
    <${Form} close=${close} action="Declare" send=${send}>
      <div class="row">
        <${Text} label="Name" value=${v.name} onChange=${(name) => change({ name })} required />
        <${Choice} label="Vhost" value=${v.vhost} onChange=${(to) => change({ vhost: to })} options=${(vhosts.length ? vhosts : [v.vhost]).map((n) => [n, n])} />
        <${Choice} label="Type" value=${v.type} onChange=${(type) => change({ type })}
          options=${[['direct', 'direct: the key is equal'], ['topic', 'topic: the key fits a pattern'], ['fanout', 'fanout: to all'], ['headers', 'headers: by headers']]} />
      </div>
      <${Check} label="durable" hint="survives a restart" value=${v.durable} onChange=${(durable) => change({ durable })} />
      <${Check} label="auto-delete" hint="goes with its last binding" value=${v.auto_delete} onChange=${(auto_delete) => change({ auto_delete })} />
      <${Check} label="internal" hint="clients cannot publish to it" value=${v.internal} onChange=${(internal) => change({ internal })} />
      <${Pairs} label="Arguments" rows=${v.rows} onChange=${(rows) => change({ rows })}
        known=${{ 'alternate-exchange': 'where a message goes that fits no binding' }} />
    <//>`;
}

export function Exchanges() {
  const vhost = useStore(scope);
  const list = {};
  const declare = async () => {
    const name = await ask('Declare an exchange', (close) => html`<${Declare} close=${close} vhost=${vhost || '/'} />`);
    if (name) { done(`Exchange ${name} is there.`); list.again?.(); }
  };
  return html`
    <${Title} tools=${html`<button onClick=${declare}>Declare an exchange …</button>`}>Exchanges<//>
    <${List} what="exchanges" path=${vhost ? path`exchanges/${vhost}` : 'exchanges'} columns=${COLUMNS} live_out=${list}
      row_key=${(x) => x.vhost + ' ' + x.name} sort="name" empty="There is no exchange that you may see." />`;
}
