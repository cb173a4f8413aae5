// Getting messages from a queue: to look at them, or to take them away.
import { path, post } from '../js/api.js';
import { confirm, failed } from '../js/dialog.js';
import { count } from '../js/format.js';
import { Choice, Text, useForm } from '../js/form.js';
import { html, useState } from '../js/lib.js';
import { Empty, Panel } from '../js/parts.js';
import { MessageCard } from './message.js';

const MODES = [
  ['ack_requeue_true', 'Look: put them back where they were'],
  ['ack_requeue_false', 'Take: acknowledge them, they are gone'],
  ['reject_requeue_true', 'Reject: as a consumer does, so that retries begin'],
  ['reject_requeue_false', 'Give up: dead-letter them'],
];
const ASKED = {
  ack_requeue_false: ['Take these messages?', 'They are acknowledged: shown here once, then gone.', 'Take them'],
  reject_requeue_true: ['Reject these messages?', 'Each counts as a failed delivery: it waits for its retry, or is dead-lettered when it is over the limit.', 'Reject them'],
  reject_requeue_false: ['Give these messages up?', 'They go to the dead-letter exchange, or are dropped if the queue has none.', 'Give them up'],
};

export function QueueMessages({ vhost, name, q, done }) {
  const [v, change] = useForm({ count: '10', mode: 'ack_requeue_true', encoding: 'auto' });
  const [got, set_got] = useState(null);
  const [busy, set_busy] = useState(false);
  async function get(event) {
    event.preventDefault();
    const asked = ASKED[v.mode];
    if (asked && !(await confirm({ title: asked[0], text: `${asked[1]} (${v.count} at most, oldest first.)`, action: asked[2] }))) return;
    set_busy(true);
    try {
      set_got(await post(path`queues/${vhost}/${name}/get`, { count: Number(v.count), ackmode: v.mode, encoding: v.encoding, truncate: 50000 }));
      done();
    } catch (error) {
      failed(error.message);
    }
    set_busy(false);
  }
  return html`
    <${Panel} title="Get messages">
      <form class="inline" onSubmit=${get}>
        <${Text} label="How many" type="number" min="1" max="1000" value=${v.count} onChange=${(n) => change({ count: n })} required />
        <${Choice} label="And then" value=${v.mode} onChange=${(mode) => change({ mode })} options=${MODES} />
        <${Choice} label="Payload" value=${v.encoding} onChange=${(encoding) => change({ encoding })} options=${[['auto', 'as text if it is text'], ['base64', 'as base64']]} />
        <button class=${ASKED[v.mode] ? 'danger' : 'primary'} disabled=${busy}>${ASKED[v.mode] ? 'Get …' : 'Get'}</button>
      </form>
      <p class="quiet">The oldest of ${count(q.messages_ready)} that are ready. Those that wait for a retry are under Waiting.</p>
    <//>
    ${got && (got.length === 0 ? html`<${Empty}>Nothing is ready.<//>`
      : got.map((m, i) => html`<${MessageCard} key=${i} m=${m} number=${i + 1} />`))}`;
}
