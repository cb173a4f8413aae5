// One message, as one reads it: where from, why it failed, headers, payload.
import { bytes, clock, count } from '../js/format.js';
import { html, useState } from '../js/lib.js';
import { Badge, Table } from '../js/parts.js';

/** The newest entry of x-death, or undefined. */
export const last_death = (m) => (Array.isArray(m.properties?.headers?.['x-death']) ? m.properties.headers['x-death'][0] : undefined);
/** AMQP timestamps are seconds, but some write ms. */
export const instant = (t) => (typeof t !== 'number' ? undefined : t > 1e11 ? t : t * 1000);

export const Reason = ({ of }) => of ? html`<${Badge} kind="warn">${of}<//>` : null;

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return null; }
}

export function Payload({ m }) {
  const [raw, set_raw] = useState(false);
  const shown = m.payload ?? '';
  const nice = m.payload_encoding === 'string' ? pretty(shown) : null;
  const cut = m.payload_encoding === 'string' && m.payload_bytes > new TextEncoder().encode(shown).length;
  return html`
    <div class="payload">
      <span class="quiet">${bytes(m.payload_bytes)}${m.payload_encoding === 'base64' ? ', shown as base64' : ''}${cut ? ', shown in part' : ''}</span>
      ${nice && html` <button class="plain" onClick=${() => set_raw(!raw)}>${raw ? 'indented' : 'as sent'}</button>`}
      ${shown === '' ? html`<p class="quiet">empty</p>` : html`<pre tabindex="0" aria-label="Payload">${nice && !raw ? nice : shown}</pre>`}
    </div>`;
}

const Deaths = ({ list }) => html`
  <ul class="deaths">${list.map((d, i) => html`
    <li key=${i}><${Reason} of=${d.reason} /> ${count(d.count)} × in <span class="name">${d.queue}</span>${d.exchange !== undefined && html`
      <span class="quiet"> from exchange ${d.exchange === '' ? '(default)' : d.exchange}, key ${(d['routing-keys'] ?? []).join(', ')}</span>`}
      ${d.time !== undefined && html` <span class="quiet">${clock(instant(d.time))}</span>`}</li>`)}</ul>`;

/** Properties without the headers, then headers without what is shown on its own. */
export function Details({ m }) {
  const { headers = {}, ...properties } = m.properties ?? {};
  const { 'x-death': deaths, 'x-last-error': error, ...others } = headers;
  return html`
    <div class="details">
      ${error !== undefined && html`<p class="last-error"><span class="label">Last error</span> <span class="data">${String(error)}</span></p>`}
      ${Array.isArray(deaths) && html`<h3>How it came here</h3><${Deaths} list=${deaths} />`}
      <div class="side-by-side">
        <div><h3>Headers</h3><${Table} of=${others} /></div>
        <div><h3>Properties</h3><${Table} of=${properties} /></div>
      </div>
      <h3>Payload</h3><${Payload} m=${m} />
    </div>`;
}

export const MessageCard = ({ m, number }) => {
  const death = last_death(m);
  return html`
    <article class="card">
      <header><b>${count(number)}</b>
        <span>exchange <span class="name">${m.exchange === '' ? '(default)' : m.exchange}</span>, key <span class="name mono">${m.routing_key}</span></span>
        ${m.redelivered && html`<${Badge} title="It was delivered before">redelivered<//>`}
        ${death && html`<${Reason} of=${death.reason} />`}
      </header>
      <${Details} m=${m} />
    </article>`;
};
