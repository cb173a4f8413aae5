// All queues: sorted, filtered and paged by the API, so that ten thousand are as quick as ten.
import { del, path } from '../js/api.js';
import { ask, confirm, done, failed } from '../js/dialog.js';
import { count, many } from '../js/format.js';
import { Title } from '../js/layout.js';
import { html, useEffect, useState } from '../js/lib.js';
import { scope } from '../js/live.js';
import { Badge, Bytes, Count, Countdown, QueueFeatures, QueueLink, Rate } from '../js/parts.js';
import { List } from '../js/table.js';
import { useStore } from '../js/use.js';
import { DeclareQueue } from './declare_queue.js';

const moved = (key) => (q) => html`<${Rate} of=${q.message_stats?.[key + '_details']?.rate ?? 0} />`;

const COLUMNS = [
  { key: 'name', label: 'Queue', sort: 'name', cell: (q) => html`<${QueueLink} vhost=${q.vhost} name=${q.name} />${q.internal && html` <${Badge} kind="wait" title=${`What waits for ${q.owner}`}>waiting<//>`}` },
  { key: 'vhost', label: 'Vhost', sort: 'vhost', cell: (q) => html`<span class="name">${q.vhost}</span>` },
  { key: 'features', label: 'Features', wide: true, cell: (q) => html`<${QueueFeatures} queue=${q} />${q.policy && html` <${Badge} kind="given" title="Its policy">${q.policy}<//>`}` },
  { key: 'ready', label: 'Ready', sort: 'messages_ready', num: true, always: true, cell: (q) => html`<${Count} of=${q.messages_ready} />` },
  { key: 'unacked', label: 'Unacked', sort: 'messages_unacknowledged', num: true, title: 'Delivered, and not acknowledged yet',
    cell: (q) => html`<${Count} of=${q.messages_unacknowledged} />` },
  { key: 'waiting', label: 'Waiting', sort: 'messages_delayed', num: true, title: 'Rejected, and not due yet', cell: (q) => html`<${Count} of=${q.messages_delayed} />` },
  { key: 'due', label: 'Next due', sort: 'next_due_at', num: true, cell: (q) => (q.next_due_at ? html`<${Countdown} at=${q.next_due_at} />` : '') },
  { key: 'consumers', label: 'Consumers', sort: 'consumers', num: true,
    cell: (q) => html`<span class=${q.consumers ? '' : q.messages_ready && !q.internal ? 'bad' : 'zero'} title=${!q.consumers && q.messages_ready ? 'Nobody consumes what is ready' : undefined}>${count(q.consumers)}</span>` },
  { key: 'publish', label: 'In /s', sort: 'message_stats.publish_details.rate', num: true, cell: moved('publish') },
  { key: 'deliver', label: 'Out /s', sort: 'message_stats.deliver_get_details.rate', num: true, cell: moved('deliver_get') },
  { key: 'ack', label: 'Ack /s', sort: 'message_stats.ack_details.rate', num: true, wide: true, cell: moved('ack') },
  { key: 'disk', label: 'Disk', sort: 'disk_bytes', num: true, wide: true, cell: (q) => html`<${Bytes} of=${q.disk_bytes ?? 0} />` },
];
const WANTED = ['name', 'vhost', 'type', 'durable', 'exclusive', 'auto_delete', 'internal', 'owner', 'arguments', 'policy', 'operator_policy',
  'messages_ready', 'messages_unacknowledged', 'messages_delayed', 'next_due_at', 'consumers', 'disk_bytes', 'message_stats.publish_details',
  'message_stats.deliver_get_details', 'message_stats.ack_details'].join();

const key_of = (q) => JSON.stringify([q.vhost, q.name]);

/** The same to each of them, a few at once; tells how many it did not work for, and why. */
async function to_each(keys, work, what) {
  const left = [...keys];
  const problems = [];
  const worker = async () => {
    for (let key = left.pop(); key !== undefined; key = left.pop()) {
      const [vhost, name] = JSON.parse(key);
      try { await work(vhost, name); } catch (error) { problems.push(`${name}: ${error.message}`); }
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  const worked = keys.size - problems.length;
  if (worked) done(`${many(worked, 'queue')} ${what}.`);
  if (problems.length) failed(`${count(problems.length)} not ${what}. ${problems.slice(0, 3).join(' · ')}`);
}

export function Queues() {
  const vhost = useStore(scope);
  const [picked, pick] = useState(new Set());
  const list = {};
  useEffect(() => pick(new Set()), [vhost]);

  const declare = async () => {
    const made = await ask('Declare a queue', (close) => html`<${DeclareQueue} close=${close} vhost=${vhost || '/'} />`);
    if (made) { done(`Queue ${made.name} is there.`); list.again?.(); }
  };
  const each = async (verb, text, work, what) => {
    const names = [...picked].map((key) => JSON.parse(key)[1]);
    const sure = await confirm({ title: `${verb} ${many(picked.size, 'queue')}?`, action: `${verb} them`,
      text: html`<p>${text}</p><ul class="plain-list">${names.slice(0, 10).map((n) => html`<li key=${n} class="name">${n}</li>`)}
        ${names.length > 10 && html`<li>and ${count(names.length - 10)} more</li>`}</ul>` });
    if (!sure) return;
    await to_each(picked, work, what);
    pick(new Set());
    list.again?.();
  };
  const tools = picked.size > 0 && html`
    <span>${count(picked.size)} selected</span>
    <button onClick=${() => each('Purge', 'All messages that are ready or wait to be retried are lost.', (v, n) => del(path`queues/${v}/${n}/contents`), 'purged')}>Purge …</button>
    <button class="danger" onClick=${() => each('Delete', 'The queues, their bindings and all their messages are lost.', (v, n) => del(path`queues/${v}/${n}`), 'deleted')}>Delete …</button>
    <button class="plain" onClick=${() => pick(new Set())}>Select none</button>`;
  return html`
    <${Title} tools=${html`<button onClick=${declare}>Declare a queue …</button>`}>Queues<//>
    <${List} what="queues" path=${vhost ? path`queues/${vhost}` : 'queues'} columns=${COLUMNS} row_key=${key_of} sort="name" live_out=${list}
      fixed=${{ columns: WANTED }} selected=${picked} onSelect=${pick} tools=${tools}
      empty="There is no queue yet. Declare one here, or let a client do it (queue.declare)." />`;
}
