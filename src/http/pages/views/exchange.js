// One exchange: its bindings, publishing, deleting it.
import { del, path, post } from '../js/api.js';
import { Form, ask, attempt, confirm, done } from '../js/dialog.js';
import { many, rate } from '../js/format.js';
import { Choice, Pairs, Text, object_of, useForm } from '../js/form.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Empty, ExchangeLink, Facts, Figure, Figures, Loaded, Panel, QueueLink, Table } from '../js/parts.js';
import { go } from '../js/route.js';
import { Rows } from '../js/table.js';
import { ExchangeFeatures } from './exchanges.js';
import { Publish } from './publish.js';

const pair_path = (vhost, b) => path`bindings/${vhost}/e/${b.source || 'amq.default'}/` +
  (b.destination_type === 'queue' ? 'q' : 'e') + path`/${b.destination}`;

/** Bindings as rows; `end` is which side is shown: "source" or "destination". */
export function Bindings({ live, vhost, end, none }) {
  const drop = async (b) => {
    const sure = await confirm({ title: 'Remove this binding?', action: 'Remove',
      text: `${b.source || '(default)'} → ${b.destination}, key "${b.routing_key}". Messages with this key no longer take this way.` });
    if (sure && await attempt(() => del(pair_path(vhost, b) + path`/${b.properties_key}`), 'The binding is removed.')) live.again();
  };
  const columns = [
    end === 'source'
      ? { key: 'from', label: 'From', cell: (b) => html`<${ExchangeLink} vhost=${vhost} name=${b.source} />` }
      : { key: 'to', label: 'To', cell: (b) => b.destination_type === 'queue'
        ? html`<${QueueLink} vhost=${vhost} name=${b.destination} /> <span class="quiet">queue</span>`
        : html`<${ExchangeLink} vhost=${vhost} name=${b.destination} /> <span class="quiet">exchange</span>` },
    { key: 'key', label: 'Key', cell: (b) => html`<span class="name mono">${b.routing_key}</span>` },
    { key: 'arguments', label: 'Arguments', cell: (b) => (Object.keys(b.arguments ?? {}).length ? html`<${Table} of=${b.arguments} />` : '') },
    { key: 'drop', label: '', num: true, cell: (b) => b.source !== '' && html`
        <button class="small" aria-label="Remove the binding ${b.routing_key}" onClick=${() => drop(b)}>Remove …</button>` },
  ];
  return html`<${Loaded} live=${live}>${(list) => list.length === 0 ? html`<${Empty}>${none}<//>`
    : html`<${Rows} label="Bindings" columns=${columns} rows=${list.slice(0, 500)}
        row_key=${(b) => `${b.source} ${b.destination_type} ${b.destination} ${b.properties_key}`} />
      ${list.length > 500 && html`<p class="quiet">The first 500 of ${list.length}.</p>`}`}<//>`;
}

/** `from` (exchange) or `to` (queue) is given, the other is typed. */
export function Bind({ close, vhost, from, to }) {
  const [v, change] = useForm({ kind: 'queue', other: '', key: '', rows: [] });
  const send = async () => {
    const source = from ?? v.other;
    const pair = { source, destination: to ?? v.other, destination_type: to !== undefined ? 'queue' : v.kind };
    await post(pair_path(vhost, pair), { routing_key: v.key, arguments: object_of(v.rows) });
  };
  const [names] = [useLive(to !== undefined ? path`exchanges/${vhost}` + '?columns=name'
    : v.kind === 'queue' ? path`queues/${vhost}` + '?columns=name&page=1&page_size=500' : path`exchanges/${vhost}` + '?columns=name', { every: false })];
  const offered = (names.data?.items ?? names.data ?? []).map((x) => x.name).filter((n) => n && !n.startsWith('amq.retry'));
  return html`
    <${Form} close=${close} action="Bind" send=${send}>
      <div class="row">
        ${to === undefined && html`<${Choice} label="To a" value=${v.kind} onChange=${(kind) => change({ kind })} options=${[['queue', 'queue'], ['exchange', 'exchange']]} />`}
        <${Text} label=${to === undefined ? 'Name' : 'From exchange'} value=${v.other} onChange=${(other) => change({ other })} required list="bind-names" />
        <${Text} label="Routing key" value=${v.key} onChange=${(key) => change({ key })} hint="of a topic exchange: * is one word, # any number" />
      </div>
      <datalist id="bind-names">${offered.map((n) => html`<option key=${n} value=${n} />`)}</datalist>
      <${Pairs} label="Arguments" rows=${v.rows} onChange=${(rows) => change({ rows })}
        known=${{ 'x-match': 'of a headers exchange: all or any' }} />
    <//>`;
}

export function Exchange({ of: [vhost, name] }) {
  const here = path`exchanges/${vhost}/${name}`;
  const live = useLive(here);
  const out = useLive(`${here}/bindings/source`);
  const into = useLive(`${here}/bindings/destination`);
  const is_default = name === 'amq.default';
  const own = !is_default && !name.startsWith('amq.');
  const bind = async () => {
    if (await ask('Bind', (close) => html`<${Bind} close=${close} vhost=${vhost} from=${name} />`)) { done('Bound.'); out.again(); }
  };
  const publish = () => ask('Publish a message', (close) => html`<${Publish} close=${close} vhost=${vhost} exchange=${name} />`);
  const remove = async () => {
    const used = out.data?.length ?? 0;
    const sure = await confirm({ title: `Delete exchange ${name}?`, action: 'Delete it',
      text: `Its ${many(used, 'binding')} will go with it, and publishes to it fail with 404 from then on. Messages in queues stay.` });
    if (sure && await attempt(() => del(here), `Exchange ${name} is deleted.`)) go(['exchanges']);
  };
  return html`
    <${Title} note="exchange in vhost ${vhost}" tools=${live.data && html`
        <button onClick=${publish} disabled=${live.data.internal}>Publish …</button>
        ${!is_default && html`<button onClick=${bind}>Bind …</button>`}
        ${own && html`<button class="danger" onClick=${remove}>Delete …</button>`}`}>
      <span class="name">${is_default ? '(default)' : name}</span><//>
    <${Loaded} live=${live} missing=${html`This exchange is gone. <a href="#/exchanges">All exchanges</a>`}>${(x) => html`
      <${Figures}>
        <${Figure} label="Type" value=${x.type} />
        <${Figure} label="In" value=${rate(x.message_stats?.publish_in_details?.rate ?? 0) + '/s'} />
        <${Figure} label="Out" value=${rate(x.message_stats?.publish_out_details?.rate ?? 0) + '/s'} />
      <//>
      <${Panel} title="What it is"><${Facts} of=${[['Features', html`<${ExchangeFeatures} of=${x} all />`],
        ['Policy', x.policy], ['Arguments', html`<${Table} of=${x.arguments} />`]]} /><//>
      ${is_default ? html`<${Panel}><p>A message published here goes to the queue whose name is its routing key. No binding is needed or possible.</p><//>`
        : html`
      <${Panel} title="Goes to"><${Bindings} live=${out} vhost=${vhost} end="destination"
          none="Nothing is bound: what is published here is dropped, or returned if it is mandatory. Bind a queue." /><//>
      <${Panel} title="Comes from other exchanges"><${Bindings} live=${into} vhost=${vhost} end="source" none="Only from publishers." /><//>`}`}
    <//>`;
}
