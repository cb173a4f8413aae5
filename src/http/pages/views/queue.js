// One queue: what it holds, what waits and when it comes due, and everything one may do with it.
import { del, path, query } from '../js/api.js';
import { ask, attempt, confirm, done } from '../js/dialog.js';
import { bytes, count, duration, many, rate } from '../js/format.js';
import { sample_query } from '../js/history.js';
import { Title } from '../js/layout.js';
import { html } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Badge, Countdown, Empty, Facts, Figure, Figures, Loaded, Name, Panel, QueueFeatures, QueueLink, Table, Tabs, Time } from '../js/parts.js';
import { go, link, route } from '../js/route.js';
import { Rows } from '../js/table.js';
import { useStore } from '../js/use.js';
import { CONSUMER_COLUMNS, consumer_key } from './consumers.js';
import { Bind, Bindings } from './exchange.js';
import { Publish } from './publish.js';
import { QueueDead } from './queue_dead.js';
import { QueueMessages } from './queue_messages.js';
import { QueueRetry } from './queue_retry.js';
import { Due, QueueWaiting } from './queue_waiting.js';
import { QUEUE_RANGES, RangeChoice, RateCharts, useRange } from './rates.js';
import { Redrive } from './redrive.js';

/** Retries are on: by its arguments. */
export const retries_on = (q) => q.arguments?.['x-delayed-retry-min'] !== undefined && q.arguments['x-delayed-retry-type'] !== 'disabled';

function Now({ q, live, range, vhost, name }) {
  const stats = q.message_stats ?? {};
  const per_second = (key) => rate(stats[key + '_details']?.rate ?? 0) + '/s';
  const dead = Object.values(q.retry_stats?.dead_lettered ?? {}).reduce((a, b) => a + b, 0);
  const dropped = Object.entries(q.retry_stats?.dropped ?? {});
  return html`
    <${Figures}>
      <${Figure} label="Ready" value=${count(q.messages_ready)} note=${bytes(q.message_bytes_ready)} />
      <${Figure} label="Unacked" title="Delivered, and not acknowledged yet" value=${count(q.messages_unacknowledged)} note=${bytes(q.message_bytes_unacknowledged)} />
      ${retries_on(q) && html`<${Figure} label="Waiting" value=${count(q.messages_delayed)} kind="wait"
          note=${q.next_due_at ? html`next <${Countdown} at=${q.next_due_at} />` : 'nothing waits'} to=${link(['queues', vhost, name], { tab: 'waiting' })} />`}
      <${Figure} label="Consumers" value=${count(q.consumers)} kind=${!q.consumers && q.messages_ready ? 'bad' : ''} />
      <${Figure} label="In" value=${per_second('publish')} note=${count(stats.publish)} />
      <${Figure} label="Out" value=${per_second('deliver_get')} note=${count(stats.deliver_get)} />
      <${Figure} label="Acked" value=${per_second('ack')} note=${count(stats.ack)} />
      ${retries_on(q) && html`<${Figure} label="Put to wait" value=${per_second('retry_scheduled')} note=${count(q.retry_stats?.scheduled)} />`}
      <${Figure} label="Dead-lettered" value=${count(dead)} to=${link(['queues', vhost, name], { tab: 'dead' })} kind=${dead ? 'warn' : ''} />
    <//>
    <${RateCharts} id=${`queue ${vhost} ${name}`} live=${live} range=${range} />
    ${retries_on(q) && html`<${Due} vhost=${vhost} name=${name} />`}
    <div class="columns">
      <${Panel} title="What it is">
        <${Facts} of=${[
          ['Features', html`<${QueueFeatures} queue=${q} all />`],
          ['State', q.state],
          ['Policy', q.policy], ['Operator policy', q.operator_policy],
          ['By policy', Object.keys(q.effective_policy_definition ?? {}).length > 0 && html`<${Table} of=${q.effective_policy_definition} />`],
          ['Delivery limit', q.delivery_limit],
          ['Owner', q.owner_pid_details?.name && html`<${Name} to=${link(['connections', q.owner_pid_details.name])}>${q.owner_pid_details.name}<//>`],
          ['Consumers able to take more', q.consumers > 0 && `${Math.round(q.consumer_capacity * 100)} % of the last seconds`],
          ['Nothing happened since', q.idle_since && html`<${Time} at=${Date.parse(q.idle_since)} />`],
          ['On disk', q.disk_bytes !== undefined && `${bytes(q.disk_bytes)} in ${many(q.segments, 'segment')}`],
          ['In memory', bytes(q.memory)],
          ['Behind their due time', q.retry_stats?.lag?.count > 0 && `on average ${duration(q.retry_stats.lag.mean_ms)}, 99 % ${q.retry_stats.lag.p99_ms === null
            ? 'not even within 5 min' : `within ${duration(q.retry_stats.lag.p99_ms)}`} (${many(q.retry_stats.lag.count, 'retry', 'retries')})`],
          ['Postponed, since the queue was full', q.retry_stats?.postponed || undefined],
          ['Dropped', dropped.length > 0 && html`<${Table} of=${Object.fromEntries(dropped)} />`],
        ]} />
      <//>
      <${Panel} title="Arguments"><${Table} of=${q.arguments} none="It was declared without arguments." /><//>
    </div>`;
}

/** A companion: what waits for its owner. */
const Companion = ({ q, vhost }) => html`
  <p><${Badge} kind="wait">internal<//> Here stand the messages of <${QueueLink} vhost=${vhost} name=${q.owner} /> that were rejected and are
    not due yet. They are looked at and moved <a href=${link(['queues', vhost, q.owner], { tab: 'waiting' })}>at their owner</a>.</p>
  <${Figures}>
    <${Figure} label="Waiting" value=${count(q.messages_ready)} note=${bytes(q.message_bytes_ready)} kind="wait" />
    <${Figure} label="Next due" value=${html`<${Countdown} at=${q.next_due_at} />`} />
    <${Figure} label="Last due" value=${html`<${Countdown} at=${q.last_due_at} />`} />
  <//>`;

export function Queue({ of: [vhost, name] }) {
  const { search } = useStore(route);
  const here = path`queues/${vhost}/${name}`;
  const range = useRange(QUEUE_RANGES);
  const live = useLive(query(here, sample_query(range)));
  const bindings = useLive(search.tab === 'bindings' ? `${here}/bindings` : null);
  const q = live.data;
  const own = q && !q.internal;

  const publish = () => ask(`Publish to ${name}`, (close) => html`<${Publish} close=${close} vhost=${vhost} queue=${name} />`).then(live.again);
  const move = () => ask(`Move messages of ${name}`, (close) => html`<${Redrive} close=${close} vhost=${vhost} queue=${name} move />`)
    .then((id) => { if (id) { done('They are being moved; how far it is shows under Dead letters.'); go(['dead-letters'], { tab: 'redrives' }); } });
  const purge = async () => {
    const n = (q.messages_ready ?? 0) + (q.messages_delayed ?? 0);
    const sure = await confirm({ title: `Purge ${name}?`, action: 'Purge it',
      text: q.internal ? `${many(q.messages_ready, 'waiting message')} will be lost, not dead-lettered.`
        : `${many(n, 'message')}, ready or waiting for a retry, will be lost. What consumers hold unacknowledged stays.` });
    if (sure && await attempt(() => del(`${here}/contents`), `${name} is purged.`)) live.again();
  };
  const remove = async () => {
    const sure = await confirm({ title: `Delete ${name}?`, action: 'Delete it',
      text: q.internal ? 'What waits in it is lost. It comes back, empty, with the next rejection.'
        : `The queue, its bindings and its ${many((q.messages ?? 0) + (q.messages_delayed ?? 0), 'message')} are lost; its ${many(q.consumers, 'consumer')} will be cancelled.` });
    if (sure && await attempt(() => del(here), `${name} is deleted.`)) go(['queues']);
  };
  const bind = async () => {
    if (await ask(`Bind ${name}`, (close) => html`<${Bind} close=${close} vhost=${vhost} to=${name} />`)) { done('Bound.'); bindings.again(); }
  };
  const tools = q && html`
    ${own && html`<button onClick=${publish}>Publish …</button><button onClick=${move}>Move …</button>`}
    <button onClick=${purge}>Purge …</button><button class="danger" onClick=${remove}>Delete …</button>`;
  const tabs = own ? [['', 'Now'], ...(retries_on(q) ? [['waiting', 'Waiting', q.messages_delayed], ['retry', 'Retry schedule']] : []),
    ['messages', 'Messages'], ['dead', 'Dead letters'], ['consumers', 'Consumers', q.consumers], ['bindings', 'Bindings']] : [];
  const tab = tabs.some(([key]) => key === search.tab) ? search.tab : '';
  return html`
    <${Title} note=${`queue in vhost ${vhost}`} tools=${tools}><span class="name">${name}</span><//>
    <${Loaded} live=${live} missing=${html`This queue is not there (any more). <a href="#/queues">All queues</a>`}>${() => (q.internal ? html`<${Companion} q=${q} vhost=${vhost} />` : html`
      <div class="tab-row"><${Tabs} tabs=${tabs} now=${tab} at=${(key) => link(['queues', vhost, name], { tab: key })} />
        ${tab === '' && html`<${RangeChoice} range=${range} keys=${QUEUE_RANGES} />`}</div>
      ${tab === '' && html`<${Now} q=${q} live=${live} range=${range} vhost=${vhost} name=${name} />`}
      ${tab === 'waiting' && html`<${QueueWaiting} vhost=${vhost} name=${name} />`}
      ${tab === 'retry' && html`<${QueueRetry} vhost=${vhost} name=${name} />`}
      ${tab === 'messages' && html`<${QueueMessages} vhost=${vhost} name=${name} q=${q} done=${live.again} />`}
      ${tab === 'dead' && html`<${QueueDead} vhost=${vhost} name=${name} q=${q} />`}
      ${tab === 'consumers' && ((q.consumer_details ?? []).length === 0
        ? html`<${Empty}>Nobody consumes from this queue. What is ready stays until a consumer subscribes.<//>`
        : html`<${Rows} label="Consumers" columns=${CONSUMER_COLUMNS.filter((c) => c.key !== 'queue' && c.key !== 'vhost')} rows=${q.consumer_details} row_key=${consumer_key} />`)}
      ${tab === 'bindings' && html`<div class="toolbar"><button onClick=${bind}>Bind to an exchange …</button></div>
        <${Bindings} live=${bindings} vhost=${vhost} end="source" none="Only the default exchange leads here." />`}`)}
    <//>`;
}
