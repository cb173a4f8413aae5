// Users, their tags, and what they may do in each vhost.
import { del, path, put } from '../js/api.js';
import { Form, ask, attempt, confirm, done } from '../js/dialog.js';
import { Check, Choice, Text, useForm } from '../js/form.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Badge, Empty, Loaded, Name } from '../js/parts.js';
import { List, Rows } from '../js/table.js';
import { useVhosts } from './exchanges.js';

const TAGS = [['administrator', 'everything'], ['monitoring', 'sees all, changes nothing of others'], ['policymaker', 'policies of its vhosts'],
  ['management', 'these pages, for its own vhosts'], ['impersonator', 'may publish in the name of others']];
const tags_of = (user) => (Array.isArray(user?.tags) ? user.tags : (user?.tags ?? '').split(',').filter(Boolean));

function Edit({ close, user }) {
  const had = tags_of(user);
  const [v, change] = useForm({ name: user?.name ?? '', password: '', tags: had });
  const send = async () => {
    const body = { tags: v.tags };
    if (v.password !== '') body.password = v.password;
    else if (user) Object.assign(body, { password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm });
    else body.password_hash = '';
    await put(path`users/${v.name}`, body);
    return v.name;
  };
  const toggle = (tag, on) => change({ tags: on ? [...v.tags, tag] : v.tags.filter((t) => t !== tag) });
  return html`
    <${Form} close=${close} action=${user ? 'Save' : 'Add'} send=${send}>
      <${Text} label="Name" value=${v.name} onChange=${(name) => change({ name })} required disabled=${Boolean(user)} />
      <${Text} label="Password" type="password" autocomplete="new-password" value=${v.password} onChange=${(password) => change({ password })}
        hint=${user ? 'empty: the password stays' : 'empty: no log-in by password'} />
      <fieldset class="inset"><legend>Tags</legend>
        ${TAGS.map(([tag, hint]) => html`<${Check} key=${tag} label=${tag} hint=${hint} value=${v.tags.includes(tag)} onChange=${(on) => toggle(tag, on)} />`)}
        <p class="hint">Without a tag a user has AMQP only, not these pages.</p>
      </fieldset>
    <//>`;
}

function EditPermission({ close, user, vhost, permission }) {
  const vhosts = useVhosts();
  const [v, change] = useForm({ vhost: vhost ?? permission?.vhost ?? '/', configure: permission?.configure ?? '.*', write: permission?.write ?? '.*', read: permission?.read ?? '.*' });
  const send = () => put(path`permissions/${v.vhost}/${user}`, { configure: v.configure, write: v.write, read: v.read });
  return html`
    <${Form} close=${close} action="Grant" send=${send}>
      <${Choice} label="Vhost" value=${v.vhost} onChange=${(to) => change({ vhost: to })} disabled=${Boolean(permission)} options=${(vhosts.length ? vhosts : [v.vhost]).map((n) => [n, n])} />
      <p class="hint">Regular expressions on the names of queues and exchanges; .* is all, empty is none.</p>
      <div class="row three">
        <${Text} label="Configure" value=${v.configure} onChange=${(configure) => change({ configure })} hint="declare, delete" />
        <${Text} label="Write" value=${v.write} onChange=${(write) => change({ write })} hint="publish, bind a queue" />
        <${Text} label="Read" value=${v.read} onChange=${(read) => change({ read })} hint="consume, get, purge" />
      </div>
    <//>`;
}

/** The permissions of a user, in a dialog. */
function Permissions({ user }) {
  const live = useLive(path`users/${user}/permissions`);
  const edit = (permission) => ask(`What ${user} may do`, (close) => html`<${EditPermission} close=${close} user=${user} permission=${permission} />`);
  const revoke = (p) => attempt(() => del(path`permissions/${p.vhost}/${user}`), `${user} has no permissions in ${p.vhost} any more.`);
  const mono = (text) => html`<span class="mono name">${text === '' ? '(none)' : text}</span>`;
  const columns = [
    { key: 'vhost', label: 'Vhost', cell: (p) => html`<${Name}>${p.vhost}<//>` },
    { key: 'configure', label: 'Configure', cell: (p) => mono(p.configure) },
    { key: 'write', label: 'Write', cell: (p) => mono(p.write) },
    { key: 'read', label: 'Read', cell: (p) => mono(p.read) },
    { key: 'act', label: '', num: true, cell: (p) => html`<span class="acts"><button class="small" aria-label="Change in ${p.vhost}" onClick=${() => edit(p)}>Change …</button>
        <button class="small" aria-label="Revoke in ${p.vhost}" onClick=${async () => { if (await confirm({ title: `Revoke in ${p.vhost}?`, text: `${user} loses its permissions in ${p.vhost}, also on open connections.`, action: 'Revoke' })) revoke(p); }}>Revoke …</button></span>` },
  ];
  return html`<${Loaded} live=${live}>${(list) => html`
    ${list.length === 0 ? html`<${Empty}>${user} may do nothing in any vhost.<//>` : html`<${Rows} label="Permissions" columns=${columns} rows=${list} row_key=${(p) => p.vhost} />`}
    <div class="buttons left"><button onClick=${() => edit(null)}>Grant in a vhost …</button></div>`}<//>`;
}

export function Users() {
  const list = {};
  const permissions = useLive('permissions');
  const edit = async (user) => {
    const name = await ask(user ? `User ${user.name}` : 'Add a user', (close) => html`<${Edit} close=${close} user=${user} />`);
    if (!name) return;
    done(user ? `User ${name} is saved.` : `User ${name} is added. Grant it permissions in a vhost.`);
    list.again?.();
  };
  const remove = async (user) => {
    const sure = await confirm({ title: `Delete user ${user.name}?`, action: 'Delete', text: 'Its permissions go too, and its connections are closed.' });
    if (sure && await attempt(() => del(path`users/${user.name}`), `User ${user.name} is deleted.`)) list.again?.();
  };
  const rights = (user) => ask(`Permissions of ${user.name}`, () => html`<${Permissions} user=${user.name} />`);
  const columns = [
    { key: 'name', label: 'User', sort: 'name', cell: (u) => html`<${Name}>${u.name}<//>` },
    { key: 'tags', label: 'Tags', cell: (u) => html`<span class="badges">${tags_of(u).map((t) => html`<${Badge} key=${t}>${t}<//>`)}</span>` },
    { key: 'vhosts', label: 'Vhosts', cell: (u) => {
      const names = (permissions.data ?? []).filter((p) => p.user === u.name).map((p) => p.vhost);
      return names.length ? html`<span class="name">${names.join(', ')}</span>` : html`<span class="warn-text">none</span>`;
    } },
    { key: 'password', label: 'Password', cell: (u) => (u.password_hash ? 'set' : html`<span class="quiet">none</span>`) },
    { key: 'act', label: '', num: true, cell: (u) => html`<span class="acts"><button class="small" aria-label="Permissions of ${u.name}" onClick=${() => rights(u)}>Permissions …</button>
        <button class="small" aria-label="Change ${u.name}" onClick=${() => edit(u)}>Change …</button>
        <button class="small" aria-label="Delete ${u.name}" onClick=${() => remove(u)}>Delete …</button></span>` },
  ];
  return html`
    <${Title} tools=${html`<button onClick=${() => edit(null)}>Add a user …</button>`}>Users<//>
    <${List} what="users" path="users" columns=${columns} row_key=${(u) => u.name} sort="name" live_out=${list} empty="There is no user." />`;
}
