// What waits to be retried in a queue: when it comes due, why it was rejected, and letting it go sooner or not at all.
import { path, post, query } from '../js/api.js';
import { Chart } from '../js/chart.js';
import { confirm, done, failed } from '../js/dialog.js';
import { clock, count, duration, many } from '../js/format.js';
import { Fragment, html, useEffect, useMemo, useState } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Countdown, Empty, Loaded, Panel, Time } from '../js/parts.js';
import { route, search_for } from '../js/route.js';
import { useStore } from '../js/use.js';
import { Details } from './message.js';

const from_of = (row) => row.from ?? row.from_ms ?? row.at;
const to_of = (row) => row.to ?? row.to_ms ?? from_of(row) + 1;

/** The API gives rows of one width and leaves empty ones out; bars want all of them. */
function bars_of(rows) {
  if (!rows?.length) return { times: [], values: [] };
  const width = Math.max(1, to_of(rows[0]) - from_of(rows[0]));
  const first = from_of(rows[0]);
  const steps = Math.min(400, Math.round((from_of(rows[rows.length - 1]) - first) / width) + 1);
  const values = new Array(steps).fill(0);
  for (const row of rows) {
    const at = Math.round((from_of(row) - first) / width);
    if (at < steps) values[at] += row.count;
  }
  return { times: values.map((_, i) => first + i * width), values, width };
}

export function DueChart({ data }) {
  const bars = useMemo(() => bars_of(data.histogram), [JSON.stringify(data.histogram)]);
  return html`<${Chart} title=${`When it comes due${bars.width ? `, per ${duration(bars.width)}` : ''}`} bars times=${bars.times}
    lines=${[{ label: 'due', colour: 'c4', values: bars.values }]} say=${count} none="Nothing waits." />`;
}

/** The histogram alone, for the queue's first page. Read again every few seconds; a page of one row is enough for it. */
export function Due({ vhost, name }) {
  const live = useLive(query(path`queues/${vhost}/${name}/delayed`, { page: 1, page_size: 1 }));
  if (live.error?.status === 404 || !live.data?.histogram) return null;
  return html`<${Panel}><${DueChart} data=${live.data} /><//>`;
}

const VERBS = [
  ['redeliver', 'Redeliver now', 'They become ready at once; their counters stay.', 'redelivered', false],
  ['dead-letter', 'Dead-letter', 'They go to the dead-letter exchange, or are dropped if the queue has none.', 'dead-lettered', true],
  ['drop', 'Drop', 'They are lost for good.', 'dropped', true],
];

const is_long = (text) => text.length > 200 || text.includes('\n');

function Row({ m, picked, pick }) {
  const [open, set_open] = useState(false);
  const error = m.last_error ?? '';
  return html`<${Fragment}>
    <tr role="row" class=${picked ? 'picked' : ''}>
      <td role="cell" class="pick"><input type="checkbox" aria-label="Select the message due ${clock(m.due_at)}" checked=${picked} onChange=${(e) => pick(e.target.checked)} /></td>
      <td role="cell" class="num"><${Countdown} at=${m.due_at} /></td>
      <td role="cell" class="num wide"><${Time} at=${m.due_at} /></td>
      <td class="num attempt" role="cell" title="Delivered ${many(m.delivery_count, 'time')} so far">${count(m.attempt)}</td>
      <td role="cell" class="what">${error ? html`<span class="error-text ${open || !is_long(error) ? '' : 'short'}">${error}</span>` : html`<span class="quiet">rejected without a word</span>`}
        <span class="quiet"> · key <span class="mono name">${m.routing_key}</span></span></td>
      <td role="cell" class="num"><button class="small" aria-expanded=${open} onClick=${() => set_open(!open)}>${open ? 'Less' : 'More'}</button></td>
    </tr>
    ${open && html`<tr role="row" class="more"><td role="cell" colspan="6"><${Details} m=${m} />
      <p class="quiet">Rejected ${clock(m.rejected_at)} · exchange ${m.exchange === '' ? '(default)' : m.exchange} · id ${m.id}</p></td></tr>`}
  <//>`;
}

export function QueueWaiting({ vhost, name }) {
  const { search } = useStore(route);
  const [picked, pick] = useState(new Set());
  const page = Math.max(1, Number(search.page) || 1);
  const due = search.due ?? '';
  const here = path`queues/${vhost}/${name}/delayed`;
  const live = useLive(query(here, { page, page_size: 50, payload_bytes: 2000, due_before: due ? Date.now() - (Date.now() % 60000) + Number(due) : undefined }));
  const data = live.data;
  useEffect(() => {   // what was on this page has come due
    if (data && page > data.page_count) search_for({ page: '' }, true);
  }, [data]);

  const act = async ([action, verb, text, what, danger], body, how_many) => {
    const sure = await confirm({ title: `${verb}: ${how_many}?`, text, action: verb, danger });
    if (!sure) return;
    try {
      const answer = await post(`${here}/${action}`, body);
      done(`${count(answer.affected)} ${what}.`);
      if (answer.failed > 0 || answer.reason) failed(`${count(answer.failed ?? 0)} not ${what}${answer.reason ? `: ${answer.reason}` : ''}.`);
    } catch (error) {
      failed(error.message);
    }
    pick(new Set());
    live.again();
  };
  const total = data?.total_count ?? data?.items?.length ?? 0;
  const pages = data?.page_count ?? 1;
  if (live.error?.status === 404 && !data) return html`<${Empty}>This broker does not show what waits.<//>`;
  return html`<${Loaded} live=${live}>${() => total === 0 && !due ? html`<${Empty}>Nothing waits. A message that a consumer rejects with requeue comes here for its delay.<//>` : html`
    <${Panel}><${DueChart} data=${data} /><//>
    <h2 class="unseen">Messages</h2>
    <div class="toolbar">
      <select aria-label="Which" onChange=${(e) => search_for({ due: e.target.value, page: '' }, true)}>
        ${[['', 'all'], ['60000', 'due within 1 min'], ['600000', 'within 10 min'], ['3600000', 'within 1 h']].map(([key, text]) => html`
          <option key=${key} value=${key} selected=${key === due}>${text}</option>`)}
      </select>
      ${picked.size > 0 ? html`<span>${count(picked.size)} selected</span>
        ${VERBS.map((v) => html`<button key=${v[0]} class=${v[4] ? 'danger' : ''} onClick=${() => act(v, { ids: [...picked] }, count(picked.size))}>${v[1]} …</button>`)}
        <button class="plain" onClick=${() => pick(new Set())}>Select none</button>`
        : !due && html`<span class="quiet">All ${count(total)}:</span>
        ${VERBS.map((v) => html`<button key=${v[0]} class=${v[4] ? 'danger' : ''} onClick=${() => act(v, { all: true }, `all ${count(total)}`)}>${v[1]} …</button>`)}`}
      <span class="spring" />
      ${pages > 1 && html`<div class="pager">
        <button aria-label="Page before" disabled=${page <= 1} onClick=${() => search_for({ page: page - 1 }, true)}>‹</button>
        <span>page ${count(page)} of ${count(pages)}</span>
        <button aria-label="Next page" disabled=${page >= pages} onClick=${() => search_for({ page: page + 1 }, true)}>›</button></div>`}
    </div>
    ${data.items.length === 0 ? html`<${Empty}>Nothing is due within that time.<//>` : html`
    <div class="table-frame" tabindex="0" role="region" aria-label="What waits">
      <table class="rows waiting-rows" role="table" aria-label="What waits">
        <thead role="rowgroup"><tr role="row">
          <th role="columnheader" class="pick"><input type="checkbox" aria-label="All of this page" checked=${data.items.every((m) => picked.has(m.id))}
            onChange=${(e) => pick(new Set(e.target.checked ? data.items.map((m) => m.id) : []))} /></th>
          <th role="columnheader" class="num" scope="col">Due</th><th role="columnheader" class="num wide" scope="col">At</th><th role="columnheader" class="num" scope="col">Attempt</th><th role="columnheader" scope="col">Last error</th><th role="columnheader" scope="col"><span class="unseen">Details</span></th>
        </tr></thead>
        <tbody role="rowgroup">${data.items.map((m) => html`<${Row} key=${m.id} m=${m} picked=${picked.has(m.id)} pick=${(on) => {
          const next = new Set(picked);
          on ? next.add(m.id) : next.delete(m.id);
          pick(next);
        }} />`)}</tbody>
      </table>
    </div>`}`}<//>`;
}
