// Policies: arguments for queues and exchanges by their names, changed without declaring anything again.
import { del, may, path, put } from '../js/api.js';
import { Form, ask, attempt, confirm, done } from '../js/dialog.js';
import { Choice, Pairs, Text, object_of, rows_of, useForm } from '../js/form.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope } from '../js/live.js';
import { Badge, Name, Table, Tabs } from '../js/parts.js';
import { link, route } from '../js/route.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';
import { useVhosts } from './exchanges.js';

const KNOWN = {
  'dead-letter-exchange': 'where rejected, expired and given-up messages go', 'dead-letter-routing-key': 'with this key',
  'message-ttl': 'ms after which a message expires', expires: 'ms without use after which a queue is deleted',
  'max-length': 'most ready messages', 'max-length-bytes': 'most bytes of ready messages',
  overflow: 'drop-head, reject-publish or reject-publish-dlx', 'delivery-limit': 'most redeliveries; the lower of this and the argument counts',
  'alternate-exchange': 'of exchanges: where unrouted messages go', 'consumer-timeout': 'ms within which a delivery must be acknowledged',
};

function Edit({ close, kind, vhost, policy }) {
  const vhosts = useVhosts();
  const [v, change] = useForm({ vhost: policy?.vhost ?? vhost, name: policy?.name ?? '', pattern: policy?.pattern ?? '',
    apply: policy?.['apply-to'] ?? 'queues', priority: String(policy?.priority ?? 0), rows: policy ? rows_of(policy.definition) : [{ key: '', value: '', kind: 'auto' }] });
  const send = () => put(`${kind}/` + path`${v.vhost}/${v.name}`,
    { pattern: v.pattern, definition: object_of(v.rows), priority: Number(v.priority), 'apply-to': v.apply });
  const applies = kind === 'policies' ? [['all', 'queues and exchanges'], ['queues', 'queues'], ['exchanges', 'exchanges']] : [['queues', 'queues']];
  return html`
    <${Form} close=${close} action="Put it in force" send=${send}>
      <div class="row">
        <${Text} label="Name" value=${v.name} onChange=${(name) => change({ name })} required disabled=${Boolean(policy)} />
        <${Choice} label="Vhost" value=${v.vhost} onChange=${(to) => change({ vhost: to })} disabled=${Boolean(policy)} options=${(vhosts.length ? vhosts : [v.vhost]).map((n) => [n, n])} />
      </div>
      <div class="row">
        <${Text} label="Pattern" value=${v.pattern} onChange=${(pattern) => change({ pattern })} required hint="a regular expression on names, for example ^orders" />
        <${Choice} label="Applies to" value=${v.apply} onChange=${(apply) => change({ apply })} options=${applies} />
        <${Text} label="Priority" type="number" value=${v.priority} onChange=${(priority) => change({ priority })} hint="the highest that fits counts" />
      </div>
      <${Pairs} label="Definition" rows=${v.rows} onChange=${(rows) => change({ rows })} known=${KNOWN}
        hint="Retry delays are not set here but at the queue, under Retry schedule." />
    <//>`;
}

export function Policies() {
  const vhost = useStore(scope);
  const { search } = useStore(route);
  const is_operator = search.tab === 'operator';
  const kind = is_operator ? 'operator-policies' : 'policies';
  const writes = is_operator ? may().administrator : may().policymaker;
  const list = {};
  const edit = async (policy) => {
    if (await ask(policy ? `Policy ${policy.name}` : 'Add a policy', (close) => html`<${Edit} close=${close} kind=${kind} vhost=${vhost || '/'} policy=${policy} />`)) {
      done('The policy is in force.');
      list.again?.();
    }
  };
  const remove = async (p) => {
    const sure = await confirm({ title: `Remove policy ${p.name}?`, action: 'Remove it', text: `What fits "${p.pattern}" gets the next policy that fits, or none, at once.` });
    if (sure && await attempt(() => del(`${kind}/` + path`${p.vhost}/${p.name}`), `Policy ${p.name} is removed.`)) list.again?.();
  };
  const columns = [
    { key: 'name', label: 'Policy', sort: 'name', cell: (p) => html`<${Name}>${p.name}<//>` },
    { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (p) => html`<span class="name">${p.vhost}</span>` },
    { key: 'pattern', label: 'Pattern', sort: 'pattern', cell: (p) => html`<span class="name mono">${p.pattern}</span>` },
    { key: 'apply', label: 'Applies to', sort: 'apply-to', cell: (p) => html`<${Badge}>${p['apply-to']}<//>` },
    { key: 'definition', label: 'Definition', cell: (p) => html`<${Table} of=${p.definition} />` },
    { key: 'priority', label: 'Priority', sort: 'priority', num: true, cell: (p) => p.priority },
    { key: 'act', label: '', num: true, cell: (p) => writes && html`<span class="acts"><button class="small" aria-label="Change ${p.name}" onClick=${() => edit(p)}>Change …</button>
        <button class="small" aria-label="Remove ${p.name}" onClick=${() => remove(p)}>Remove …</button></span>` },
  ];
  return html`
    <${Title} tools=${writes && html`<button onClick=${() => edit(null)}>Add ${is_operator ? 'an operator policy' : 'a policy'} …</button>`}>Policies<//>
    <${Tabs} tabs=${[['', 'Policies'], ['operator', 'Operator policies']]} now=${is_operator ? 'operator' : ''} at=${(key) => link(['policies'], { tab: key })} />
    <${List} key=${kind} what="policies" path=${vhost ? `${kind}/` + path`${vhost}` : kind} columns=${columns} live_out=${list}
      row_key=${(p) => p.vhost + ' ' + p.name} sort="name"
      empty=${is_operator ? 'There is no operator policy. Its limits hold whatever arguments and policies say: the lower value counts.'
        : 'There is no policy. One gives arguments, for example a dead-letter exchange, to all queues whose names fit a pattern.'} />`;
}
