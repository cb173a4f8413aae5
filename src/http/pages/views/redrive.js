// Moving messages in the background: dead letters back to where they died, or a queue's messages to another queue.
import { del, path, post } from '../js/api.js';
import { Form, attempt, confirm } from '../js/dialog.js';
import { count, rate } from '../js/format.js';
import { Check, Choice, Text, useForm } from '../js/form.js';
import { html, useState } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Badge, Count, Countdown, Empty, Loaded, Name, QueueLink, Time } from '../js/parts.js';
import { Rows } from '../js/table.js';

const REASONS = [['', 'any'], ['rejected', 'rejected'], ['delivery_limit', 'delivery_limit'], ['expired', 'expired'], ['maxlen', 'maxlen'], ['max_age', 'max_age']];

/** A form in a dialog; closes with the redrive's id. `move`: to a queue that is named, whatever the message went through. */
export function Redrive({ close, vhost, queue, move = false }) {
  const [v, change] = useForm({ where: move ? 'named' : 'origin', target: '', limit: '', rate: '', reason: '', queue: '', header: '', value: '', reset: true });
  const [found, set_found] = useState(null);
  const names = useLive(path`queues/${vhost}` + '?page=1&page_size=500&columns=name', { every: false });
  const body = (dry_run) => {
    const filter = Object.fromEntries(['reason', 'queue', 'header', 'value'].filter((k) => v[k].trim() !== '').map((k) => [k, v[k].trim()]));
    const out = { target: v.where === 'origin' ? 'origin' : v.target, reset_budget: v.reset, dry_run };
    if (v.limit) out.limit = Number(v.limit);
    if (v.rate) out.rate = Number(v.rate);
    if (Object.keys(filter).length) out.filter = filter;
    return out;
  };
  const here = path`queues/${vhost}/${queue}/redrive`;
  const dry = () => attempt(async () => set_found(await post(here, body(true))));
  return html`
    <${Form} close=${close} action=${move ? 'Move' : 'Redrive'} send=${async () => (await post(here, body(false)))?.id}>
      ${!move && html`<${Choice} label="To" value=${v.where} onChange=${(where) => change({ where })}
          options=${[['origin', 'the queue each message died in'], ['named', 'a queue that I name']]} />`}
      ${v.where === 'named' && html`<${Text} label="To the queue" value=${v.target} onChange=${(target) => change({ target })} required list="redrive-names" />
        <datalist id="redrive-names">${(names.data?.items ?? []).map((q) => q.name).filter((n) => n !== queue && !n.startsWith('amq.retry-')).map((n) => html`<option key=${n} value=${n} />`)}</datalist>`}
      <div class="row">
        <${Text} label="At most" type="number" min="1" value=${v.limit} onChange=${(limit) => change({ limit })} placeholder="all" />
        <${Text} label="A second" type="number" min="1" value=${v.rate} onChange=${(r) => change({ rate: r })} placeholder="as fast as it goes" />
      </div>
      <fieldset class="inset"><legend>Only those with</legend>
        <div class="row two">
          <${Choice} label="Reason" value=${v.reason} onChange=${(reason) => change({ reason })} options=${REASONS} />
          <${Text} label="Died in queue" value=${v.queue} onChange=${(q) => change({ queue: q })} />
          <${Text} label="Header" value=${v.header} onChange=${(header) => change({ header })} />
          <${Text} label="Its value" value=${v.value} onChange=${(value) => change({ value })} />
        </div>
      </fieldset>
      <${Check} label="a fresh budget of retries" hint="else the counter goes on where it was" value=${v.reset} onChange=${(reset) => change({ reset })} />
      <p><button type="button" onClick=${dry}>How many would it be?</button>${found && html` <b>${count(found.matched)}</b> ${found.matched === 1 ? 'message' : 'messages'}`}
        ${found?.reason && html`<br /><span class="${found.missing ? 'bad' : 'quiet'}">${found.reason}</span>`}</p>
    <//>`;
}

const state_kind = (s) => ({ running: 'wait', completed: 'good', stopped: 'bad', cancelled: 'warn' }[s] ?? '');

/** Those that run and those that ended lately. */
export function Redrives() {
  const live = useLive('redrives');
  const cancel = async (r) => {
    const sure = await confirm({ title: 'Cancel it?', text: `What has been moved (${count(r.moved)}) stays where it is now; the rest stays in ${r.queue}.`, action: 'Cancel the redrive' });
    if (sure && await attempt(() => del(path`redrives/${String(r.id)}`), 'It is cancelled.')) live.again();
  };
  const columns = [
    { key: 'queue', label: 'From', cell: (r) => (r.vhost ? html`<${QueueLink} vhost=${r.vhost} name=${r.queue} />` : html`<${Name}>${r.queue}<//>`) },
    { key: 'target', label: 'To', cell: (r) => html`<span class="name">${r.target === 'origin' || r.target === undefined ? 'where they died' : r.target}</span>` },
    { key: 'state', label: 'State', cell: (r) => html`<${Badge} kind=${state_kind(r.state)}>${r.state}<//> ${r.reason && html`<span class="quiet">${r.reason}</span>`}` },
    { key: 'moved', label: 'Moved', num: true, cell: (r) => html`<${Count} of=${r.moved} />` },
    { key: 'skipped', label: 'Skipped', num: true, title: 'They do not fit the filter, or have nowhere to go', cell: (r) => html`<${Count} of=${r.skipped} />` },
    { key: 'failed', label: 'Refused', num: true, title: 'The target did not take them; they stayed', cell: (r) => html`<span class=${r.failed ? 'bad' : 'zero'}>${count(r.failed)}</span>` },
    { key: 'rate', label: 'Most /s', num: true, wide: true, cell: (r) => (r.rate === null ? 'no limit' : rate(r.rate)) },
    { key: 'begun', label: 'Begun', num: true, cell: (r) => html`<${Countdown} at=${r.started_at} />` },
    { key: 'ended', label: 'Ended', num: true, wide: true, cell: (r) => html`<${Time} at=${r.finished_at} />` },
    { key: 'cancel', label: '', num: true, cell: (r) => !r.finished_at && html`<button class="small" onClick=${() => cancel(r)}>Cancel …</button>` },
  ];
  return html`<${Loaded} live=${live} missing="This broker knows no redrives.">${(data) => {
    const list = (data.items ?? data).slice().reverse();   // the API tells the oldest first
    return list.length === 0 ? html`<${Empty}>None runs, and none ended lately. Open a dead-letter queue and choose Redrive to bring its messages back.<//>`
      : html`<${Rows} label="Redrives" columns=${columns} rows=${list} row_key=${(r) => String(r.id)} />`;
  }}<//>`;
}
