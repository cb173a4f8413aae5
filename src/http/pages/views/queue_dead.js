// The dead letters of a queue, both ways: those that it gave up (and where they are now), and those that it holds.
import { path, post, query } from '../js/api.js';
import { ask, done, failed } from '../js/dialog.js';
import { clock, count } from '../js/format.js';
import { html, useEffect, useRef, useState } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Count, Empty, ExchangeLink, Facts, Loaded, Panel, QueueLink } from '../js/parts.js';
import { go } from '../js/route.js';
import { Details, Reason, instant, last_death } from './message.js';
import { Redrive } from './redrive.js';

const LOOKED = 200;

/** {exchange, key} that a queue's dead letters go to, by arguments and policy; null: they are dropped. */
export function dead_letter_way(q) {
  const own = q.arguments ?? {};
  const policy = q.effective_policy_definition ?? {};
  const exchange = own['x-dead-letter-exchange'] ?? policy['dead-letter-exchange'];
  if (exchange === undefined) return null;
  return { exchange, key: own['x-dead-letter-routing-key'] ?? policy['dead-letter-routing-key'] };
}

/** Names of the queues that a way leads to, as far as its bindings tell; undefined while they are read. */
export function useTargets(vhost, way) {
  const direct = way && way.exchange === '' && way.key !== undefined;
  const bindings = useLive(way && way.exchange !== '' ? path`exchanges/${vhost}/${way.exchange}/bindings/source` : null, { shared: true });
  if (!way) return [];
  if (direct) return [way.key];
  if (way.exchange === '') return [];
  if (!bindings.data) return bindings.error ? [] : undefined;
  const to_queues = bindings.data.filter((b) => b.destination_type === 'queue');
  // With a key that is given: the bindings with that key and those with a pattern, if any has it; else all may fit.
  const exact = way.key !== undefined && to_queues.some((b) => b.routing_key === way.key);
  const fitting = exact ? to_queues.filter((b) => b.routing_key === way.key || /[*#]/.test(b.routing_key)) : to_queues;
  return [...new Set(fitting.map((b) => b.destination))];
}

function Letter({ m, from }) {
  const [open, set_open] = useState(false);
  const death = last_death(m);
  const error = m.properties?.headers?.['x-last-error'];
  return html`
    <li class="letter">
      <div class="head">
        <span class="when">${clock(instant(death?.time))}</span> <${Reason} of=${death?.reason ?? 'no x-death'} />
        ${!from && html`<span class="quiet">died in</span> <span class="name">${death?.queue ?? '–'}</span>`}
        ${m.properties?.message_id && html`<span class="name mono">${m.properties.message_id}</span>`}
        <span class="quiet">key <span class="mono name">${death?.['routing-keys']?.[0] ?? m.routing_key}</span></span>
        <button class="small" aria-expanded=${open} onClick=${() => set_open(!open)}>${open ? 'Less' : 'More'}</button>
      </div>
      ${error !== undefined && !open && html`<p class="error-text short">${String(error)}</p>`}
      ${open && html`<${Details} m=${m} />`}
    </li>`;
}

/**
 * Looks into `queue` for dead letters; only those that died in `from`, if it is given. By itself if nobody consumes there:
 * then nobody is kept waiting by it.
 */
export function Letters({ vhost, queue, from, title }) {
  const [found, set_found] = useState(null);
  const [busy, set_busy] = useState(false);
  const live = useLive(query(path`queues/${vhost}/${queue}`, { columns: 'messages_ready,messages,consumers' }));
  async function look() {
    set_busy(true);
    try {
      const all = await post(path`queues/${vhost}/${queue}/get`, { count: LOOKED, ackmode: 'ack_requeue_true', encoding: 'auto', truncate: 20000 });
      const time = (m) => instant(last_death(m)?.time) ?? 0;
      set_found({ seen: all.length, list: all.filter((m) => !from || last_death(m)?.queue === from).sort((a, b) => time(b) - time(a)) });
    } catch (error) {
      failed(error.message);
    }
    set_busy(false);
  }
  const alone = live.data?.messages_ready > 0 && live.data.consumers === 0;
  const began = useRef(false);
  useEffect(() => {
    if (!alone || began.current) return;
    began.current = true;
    look();
  }, [alone]);
  const redrive = () => ask(`Redrive dead letters of ${queue}`, (close) => html`<${Redrive} close=${close} vhost=${vhost} queue=${queue} />`)
    .then((id) => { if (id) { done('The redrive runs.'); go(['dead-letters'], { tab: 'redrives' }); } });
  const ready = live.data?.messages_ready;
  return html`
    <${Panel} title=${title ?? html`In <${QueueLink} vhost=${vhost} name=${queue} tab="dead" />`}
      tools=${html`<span class="quiet">${count(ready)} ready</span>
        <button onClick=${look} disabled=${busy || !ready}>${found ? 'Look again' : 'Look into it'}</button>
        <button onClick=${redrive} disabled=${!ready}>Redrive …</button>`}>
      <${Loaded} live=${live} missing=${html`This queue is not there: dead letters that should go to it are dropped. Declare it.`}>${() => html`
        ${!found && (ready ? html`<p class="quiet">To look puts the messages back where they were; their retry counters do not change.</p>`
          : html`<${Empty}>It holds no ready message.<//>`)}
        ${found && (found.list.length === 0 ? html`<${Empty}>${found.seen === 0 ? 'It holds no ready message now.' : `Of the ${count(found.seen)} oldest messages none died in ${from}.`}<//>`
          : html`<ul class="letters">${found.list.map((m, i) => html`<${Letter} key=${i} m=${m} from=${from} />`)}</ul>
            ${ready > LOOKED && html`<p class="quiet">Newest first, of the ${count(LOOKED)} oldest messages of the queue.</p>`}`)}`}<//>
    <//>`;
}

const sum = (counts) => Object.values(counts ?? {}).reduce((a, b) => a + b, 0);

export function QueueDead({ vhost, name, q }) {
  const way = dead_letter_way(q);
  const targets = useTargets(vhost, way);
  const stats = q.retry_stats ?? {};
  return html`
    <${Panel} title="Given up by this queue">
      ${way ? html`<p>Dead letters go to exchange <${ExchangeLink} vhost=${vhost} name=${way.exchange} />${way.key !== undefined
          ? html` with key <span class="mono name">${way.key}</span>` : ' with their own key'}.</p>`
        : html`<p class="quiet">The queue has no dead-letter exchange: what it gives up is dropped. Set <span class="mono">dead-letter-exchange</span> by a policy, or declare it with <span class="mono">x-dead-letter-exchange</span>.</p>`}
      ${sum(stats.dead_lettered) === 0 && sum(stats.dropped) === 0 ? html`<p class="quiet">None since the broker started.</p>`
        : html`<${Facts} of=${[...Object.entries(stats.dead_lettered ?? {}).map(([reason, n]) => [reason, html`<${Count} of=${n} />`]),
            ...Object.entries(stats.dropped ?? {}).map(([reason, n]) => [`dropped: ${reason}`, html`<span class="bad">${count(n)}</span>`])]} />
          <p class="quiet">Since the broker started.</p>`}
    <//>
    ${way && targets && targets.length === 0 && html`<${Empty}>No queue is bound to that exchange with a key that fits: dead letters are dropped. Bind one.<//>`}
    ${way && (targets ?? []).slice(0, 5).map((target) => html`<${Letters} key=${target} vhost=${vhost} queue=${target} from=${name} />`)}
    ${!(targets ?? []).includes(name) && html`<${Letters} key="own" vhost=${vhost} queue=${name} title="Held by this queue" />`}`;
}
