// Virtual hosts: what each holds, and its limits.
import { del, may, path, put } from '../js/api.js';
import { Form, ask, attempt, confirm, done } from '../js/dialog.js';
import { count, many } from '../js/format.js';
import { Text, useForm } from '../js/form.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { scope, useLive } from '../js/live.js';
import { Badge, Count, Rate } from '../js/parts.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';

const LIMITS = [['max-queues', 'Queues at most'], ['max-connections', 'Connections at most']];

function Edit({ close, vhost, limits }) {
  const [v, change] = useForm({ name: vhost?.name ?? '', description: vhost?.description ?? vhost?.metadata?.description ?? '',
    ...Object.fromEntries(LIMITS.map(([key]) => [key, limits[key] === undefined ? '' : String(limits[key])])) });
  const send = async () => {
    await put(path`vhosts/${v.name}`, { description: v.description });
    for (const [key] of LIMITS) {
      const before = limits[key] === undefined ? '' : String(limits[key]);
      if (v[key] === before) continue;
      if (v[key] === '') await del(path`vhost-limits/${v.name}/${key}`);
      else await put(path`vhost-limits/${v.name}/${key}`, { value: Number(v[key]) });
    }
    return v.name;
  };
  return html`
    <${Form} close=${close} action=${vhost ? 'Save' : 'Add'} send=${send}>
      <${Text} label="Name" value=${v.name} onChange=${(name) => change({ name })} required disabled=${Boolean(vhost)} />
      <${Text} label="Description" value=${v.description} onChange=${(description) => change({ description })} />
      <div class="row">${LIMITS.map(([key, label]) => html`
        <${Text} key=${key} label=${label} type="number" min="-1" value=${v[key]} onChange=${(n) => change({ [key]: n })} placeholder="no limit" />`)}</div>
    <//>`;
}

export function Vhosts() {
  const list = {};
  const shown = useStore(scope);
  const limits = useLive('vhost-limits');
  const limits_of = (name) => {
    const found = Array.isArray(limits.data) ? limits.data.find((l) => l.vhost === name)?.value : undefined;
    return Object.fromEntries(Object.entries(found ?? {}).filter(([, n]) => n >= 0));
  };
  const edit = async (vhost) => {
    const name = await ask(vhost ? `Vhost ${vhost.name}` : 'Add a vhost', (close) => html`<${Edit} close=${close} vhost=${vhost} limits=${vhost ? limits_of(vhost.name) : {}} />`);
    if (!name) return;
    done(vhost ? `Vhost ${name} is saved.` : `Vhost ${name} is added. Grant users permissions in it under Users.`);
    list.again?.();
    limits.again();
  };
  const remove = async (v) => {
    const sure = await confirm({ title: `Delete vhost ${v.name}?`, action: 'Delete it',
      text: `All its exchanges, queues and ${many(v.messages, 'message')} are lost, and its connections are closed.` });
    if (sure && await attempt(() => del(path`vhosts/${v.name}`), `Vhost ${v.name} is deleted.`)) list.again?.();
  };
  const columns = [
    { key: 'name', label: 'Vhost', sort: 'name', cell: (v) => html`<button class="plain name" title="Narrow all pages to it" onClick=${() => { scope.write(v.name); location.hash = '#/'; }}>${v.name}</button>
        ${shown === v.name && html` <${Badge} kind="good">shown<//>`}` },
    { key: 'description', label: 'Description', cell: (v) => html`<span class="name">${v.description ?? ''}</span>` },
    { key: 'ready', label: 'Ready', sort: 'messages_ready', num: true, cell: (v) => html`<${Count} of=${v.messages_ready} />` },
    { key: 'unacked', label: 'Unacked', sort: 'messages_unacknowledged', num: true, cell: (v) => html`<${Count} of=${v.messages_unacknowledged} />` },
    { key: 'in', label: 'In /s', sort: 'message_stats.publish_details.rate', num: true, cell: (v) => html`<${Rate} of=${v.message_stats?.publish_details?.rate ?? 0} />` },
    { key: 'out', label: 'Out /s', sort: 'message_stats.deliver_get_details.rate', num: true, cell: (v) => html`<${Rate} of=${v.message_stats?.deliver_get_details?.rate ?? 0} />` },
    { key: 'limits', label: 'Limits', cell: (v) => html`<span class="badges">${Object.entries(limits_of(v.name)).map(([key, n]) => html`<${Badge} key=${key}>${key} ${count(n)}<//>`)}</span>` },
    { key: 'act', label: '', num: true, cell: (v) => may().administrator && html`<span class="acts"><button class="small" aria-label="Change ${v.name}" onClick=${() => edit(v)}>Change …</button>
        <button class="small" aria-label="Delete ${v.name}" onClick=${() => remove(v)}>Delete …</button></span>` },
  ];
  return html`
    <${Title} tools=${may().administrator && html`<button onClick=${() => edit(null)}>Add a vhost …</button>`}>Vhosts<//>
    <${List} what="vhosts" path="vhosts" columns=${columns} row_key=${(v) => v.name} sort="name" live_out=${list}
      empty="There is no vhost that you have permissions in. An administrator grants them under Users." />`;
}
