// The broker as a whole: what it holds, what moves, what wants attention.
import { call, may, query } from '../js/api.js';
import { attempt, confirm, done, failed } from '../js/dialog.js';
import { bytes, count, duration, rate } from '../js/format.js';
import { sample_query } from '../js/history.js';
import { Title } from '../js/layout.js';
import { html, useRef } from '../js/lib.js';
import { scope, useLive } from '../js/live.js';
import { Count, Countdown, Empty, Facts, Figure, Figures, Loaded, Panel, QueueLink } from '../js/parts.js';
import { Rows } from '../js/table.js';
import { useStore } from '../js/use.js';
import { ALL_RANGES, RangeChoice, RateCharts, useRange } from './rates.js';

const COLUMNS = 'name,vhost,internal,messages_ready,messages_delayed,consumers,next_due_at';

/** The queues with the most of something, five at most; those without it are left out. */
function Most({ title, sort, keep, columns, none, vhost }) {
  const live = useLive(query(vhost ? `queues/${encodeURIComponent(vhost)}` : 'queues',
    { page: 1, page_size: 12, sort, sort_reverse: true, columns: COLUMNS }));
  return html`
    <${Panel} title=${title}>
      <${Loaded} live=${live}>${(data) => {
        const rows = data.items.filter((q) => !q.internal && keep(q)).slice(0, 5);
        return rows.length === 0 ? html`<${Empty}>${none}<//>`
          : html`<${Rows} label=${title} columns=${columns} rows=${rows} row_key=${(q) => q.vhost + ' ' + q.name} />`;
      }}<//>
    <//>`;
}

const queue_column = { key: 'name', label: 'Queue', cell: (q) => html`<${QueueLink} vhost=${q.vhost} name=${q.name} />` };
const READY = [queue_column,
  { key: 'ready', label: 'Ready', num: true, cell: (q) => html`<${Count} of=${q.messages_ready} />` },
  { key: 'consumers', label: 'Consumers', num: true, cell: (q) => html`<span class=${q.consumers ? '' : 'bad'}>${count(q.consumers)}</span>` }];
const WAITING = [queue_column,
  { key: 'waiting', label: 'Waiting', num: true, cell: (q) => html`<${Count} of=${q.messages_delayed} />` },
  { key: 'due', label: 'Next due', num: true, cell: (q) => html`<${Countdown} at=${q.next_due_at} />` }];

/** What the broker says is wrong, in words of what it means and what to do. */
function Alarms({ overview, node }) {
  const said = [];
  if (overview.disk_alarm || node?.disk_free_alarm) {
    said.push(`The disk is nearly full${node?.disk_free !== undefined ? ` (${bytes(node.disk_free)} free)` : ''}: publishers are blocked until there is room. Nothing is lost.`);
  }
  if (overview.memory_alarm || node?.mem_alarm) {
    said.push('Memory is over its limit: publishers are blocked until it falls. Consumers go on; more of them help.');
  }
  return said.map((text) => html`<p class="problem" role="alert" key=${text}>${text}</p>`);
}

function Node({ node, overview }) {
  const listeners = (overview.listeners ?? []).map((l) => `${l.protocol} ${l.ip_address}:${l.port}`);
  const churn = overview.churn_rates ?? {};
  const used = (now, most, say) => (now === undefined ? undefined : most ? `${say(now)} of ${say(most)}` : say(now));
  return html`
    <${Panel} title="Node">
      <${Facts} of=${[
        ['Name', overview.node],
        ['Version', overview.product_version],
        ['Up', duration(overview.uptime ?? node?.uptime)],
        ['Memory', used(node?.mem_used, node?.mem_limit, bytes)],
        ['Disk free', used(node?.disk_free, undefined, bytes)],
        ['Publishers are blocked below', node?.disk_free_limit && bytes(node.disk_free_limit)],
        ['File descriptors', used(node?.fd_used, node?.fd_total, count)],
        ['Cores', node?.processors],
        ['Process', node?.os_pid],
        ['Listens', listeners.length ? html`<ul class="plain-list">${listeners.map((l) => html`<li key=${l}>${l}</li>`)}</ul>` : undefined],
        ['Connections opened', churn.connection_created !== undefined && html`${count(churn.connection_created)} <span class="quiet">${rate(churn.connection_created_details?.rate)}/s</span>`],
        ['Queues declared', churn.queue_declared !== undefined && count(churn.queue_declared)],
        ['Queues deleted', churn.queue_deleted !== undefined && count(churn.queue_deleted)],
      ]} />
    <//>`;
}

function Definitions() {
  const file = useRef(null);
  async function save() {
    await attempt(async () => {
      const text = await call('GET', 'definitions', undefined, { patience_ms: 0 });
      const blob = new Blob([JSON.stringify(text, null, 2)], { type: 'application/json' });
      const address = URL.createObjectURL(blob);
      const anchor = document.createElement('a');
      anchor.href = address;
      anchor.download = `tarrymq-definitions-${new Date().toISOString().slice(0, 10)}.json`;
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    });
  }
  async function load(event) {
    const chosen = event.target.files[0];
    event.target.value = '';
    if (!chosen) return;
    const text = await chosen.text();
    const sure = await confirm({ title: 'Import definitions', action: 'Import', danger: false,
      text: `What ${chosen.name} holds and the broker does not is added: vhosts, users, permissions, policies, exchanges, queues, bindings. What is there already keeps its arguments.` });
    if (!sure) return;
    try {
      const report = await call('POST', 'definitions', text);
      if (report?.skipped?.length) failed(`Imported, but not: ${report.skipped.map((s) => (typeof s === 'string' ? s : JSON.stringify(s))).join('; ')}`);
      else done(`${chosen.name} is imported.`);
    } catch (error) {
      failed(error.message);
    }
  }
  return html`
    <${Panel} title="Definitions">
      <p>Vhosts, users, permissions, policies, exchanges, queues and bindings as one JSON file; no messages.</p>
      <div class="buttons left">
        <button onClick=${save}>Export</button>
        <button onClick=${() => file.current.click()}>Import …</button>
        <input type="file" accept=".json,application/json" ref=${file} onChange=${load} hidden aria-label="File of definitions" />
      </div>
    <//>`;
}

export function Overview() {
  const vhost = useStore(scope);
  const range = useRange(ALL_RANGES);
  const live = useLive(query('overview', sample_query(range)), { headers: vhost ? { 'X-Vhost': vhost } : {} });
  const nodes = useLive(may().monitoring ? 'nodes' : null);
  const node = nodes.data?.[0];
  return html`
    <${Title} note=${vhost ? `vhost ${vhost}` : ''} tools=${html`<${RangeChoice} range=${range} keys=${ALL_RANGES} />`}>Overview<//>
    <${Loaded} live=${live}>${(o) => html`
      <${Alarms} overview=${o} node=${node} />
      <${Figures}>
        <${Figure} label="Ready" value=${count(o.queue_totals?.messages_ready)} to="#/queues?sort=messages_ready&desc=1" />
        <${Figure} label="Unacked" title="Delivered, and not acknowledged yet" value=${count(o.queue_totals?.messages_unacknowledged)} to="#/queues?sort=messages_unacknowledged&desc=1" />
        <${Figure} label="Waiting" value=${count(o.queue_totals?.messages_delayed)} to="#/retries" kind="wait" title="Rejected, and not due yet" />
        <${Figure} label="Published" value=${rate(o.message_stats?.publish_details?.rate) + '/s'} />
        <${Figure} label="Delivered" value=${rate(o.message_stats?.deliver_get_details?.rate) + '/s'} />
        ${o.message_stats?.drop_unroutable_details?.rate > 0 && html`<${Figure} label="Unroutable" value=${rate(o.message_stats.drop_unroutable_details.rate) + '/s'}
            kind="warn" title="No binding fits, and the publisher did not ask to be told: dropped" />`}
        <${Figure} label="Queues" value=${count(o.object_totals?.queues)} to="#/queues" />
        <${Figure} label="Exchanges" value=${count(o.object_totals?.exchanges)} to="#/exchanges" />
        <${Figure} label="Connections" value=${count(o.object_totals?.connections)} to="#/connections" />
        <${Figure} label="Channels" value=${count(o.object_totals?.channels)} to="#/channels" />
        <${Figure} label="Consumers" value=${count(o.object_totals?.consumers)} to="#/consumers" />
      <//>
      <${RateCharts} id=${'overview ' + vhost} live=${live} range=${range} totals />
      <div class="columns">
        <${Most} title="Most ready" sort="messages_ready" keep=${(q) => q.messages_ready > 0} columns=${READY} vhost=${vhost}
          none="No queue holds a ready message." />
        <${Most} title="Most waiting for a retry" sort="messages_delayed" keep=${(q) => q.messages_delayed > 0} columns=${WAITING} vhost=${vhost}
          none="Nothing waits to be retried." />
      </div>
      <div class="columns">
        <${Node} node=${node} overview=${o} />
        ${may().administrator && html`<${Definitions} />`}
      </div>`}
    <//>`;
}
