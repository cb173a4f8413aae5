// Declaring a queue, with its retries as fields rather than as names to remember.
import { path, put } from '../js/api.js';
import { Form } from '../js/dialog.js';
import { Check, Choice, Pairs, Text, object_of, useForm } from '../js/form.js';
import { html, useState } from '../js/lib.js';
import { useVhosts } from './exchanges.js';
import { Preview, RetryFields, retry_values } from './schedule.js';

export const QUEUE_ARGUMENTS = {
  'x-dead-letter-exchange': 'where rejected, expired and given-up messages go; "" is the default exchange',
  'x-dead-letter-routing-key': 'with this key; without it: their own',
  'x-message-ttl': 'ms after which a message expires',
  'x-expires': 'ms without use after which the queue is deleted',
  'x-max-length': 'most ready messages',
  'x-max-length-bytes': 'most bytes of ready messages',
  'x-overflow': 'at the limit: drop-head, reject-publish or reject-publish-dlx',
  'x-max-priority': 'priorities 0 to this, 255 at most',
  'x-single-active-consumer': 'true: one consumer at a time',
  'x-delivery-limit': 'most redeliveries, then it is dead-lettered',
  'x-queue-type': 'classic or quorum: the same queue here',
};
const ARGUMENT_OF = { min: 'x-delayed-retry-min', multiplier: 'x-delayed-retry-multiplier', max: 'x-delayed-retry-max',
  limit: 'x-delivery-limit', jitter: 'x-delayed-retry-jitter', max_age: 'x-delayed-retry-max-age' };

export function DeclareQueue({ close, vhost }) {
  const vhosts = useVhosts();
  const [v, change] = useForm({ vhost, name: '', durable: true, auto_delete: false, dead: '', rows: [] });
  const [retries, set_retries] = useState(false);
  const [retry, set_retry] = useState({ min: '1s', multiplier: '2', max: '5m', limit: '10' });
  const send = async () => {
    const args = object_of(v.rows);
    if (v.dead.trim() !== '') {
      args['x-dead-letter-exchange'] = '';
      args['x-dead-letter-routing-key'] = v.dead.trim();
    }
    if (retries) for (const [key, value] of Object.entries(retry_values(retry))) args[ARGUMENT_OF[key]] = value;
    await put(path`queues/${v.vhost}/${v.name}`, { durable: v.durable, auto_delete: v.auto_delete, arguments: args });
    return v;
  };
  return html`
    <${Form} close=${close} action="Declare" send=${send}>
      <div class="row">
        <${Text} label="Name" value=${v.name} onChange=${(name) => change({ name })} required />
        <${Choice} label="Vhost" value=${v.vhost} onChange=${(to) => change({ vhost: to })} options=${(vhosts.length ? vhosts : [v.vhost]).map((n) => [n, n])} />
      </div>
      <${Check} label="durable" hint="survives a restart, and so do its persistent messages" value=${v.durable} onChange=${(durable) => change({ durable })} />
      <${Check} label="auto-delete" hint="goes with its last consumer" value=${v.auto_delete} onChange=${(auto_delete) => change({ auto_delete })} />
      <${Text} label="Queue for dead letters" value=${v.dead} onChange=${(dead) => change({ dead })}
        hint="must be declared too; empty: what is given up is dropped, unless arguments or a policy say where it goes" />
      <${Check} label="retries" hint="a message that a consumer rejects comes back after a delay" value=${retries} onChange=${set_retries} />
      ${retries && html`<fieldset class="inset"><legend>Retries</legend>
        <${RetryFields} values=${retry} change=${(changes) => set_retry({ ...retry, ...changes })} />
        <${Preview} texts=${retry} /></fieldset>`}
      <${Pairs} label="More arguments" rows=${v.rows} onChange=${(rows) => change({ rows })} known=${QUEUE_ARGUMENTS} />
    <//>`;
}
