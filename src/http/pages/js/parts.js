// Small things that every page is made of.
import { DASH, bytes, clock, count, from_now, rate, utc, value_text } from './format.js';
import { html } from './lib.js';
import { link } from './route.js';
import { useNow } from './use.js';

export const Badge = ({ kind = '', title, children }) => html`<span class="badge ${kind}" title=${title}>${children}</span>`;

export const Panel = ({ title, tools, children, kind = '' }) => html`
  <section class="panel ${kind}">
    ${(title || tools) && html`<header>${title && html`<h2>${title}</h2>`}<div class="tools">${tools}</div></header>`}
    ${children}
  </section>`;

/** What to do when there is nothing to see. */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** An error of the API, in its words; old figures may stand beside it. */
export const Problem = ({ error, stale = false, again }) => error && html`
  <p class="problem" role="alert">
    ${error.message}${stale && html` <span class="quiet">What is shown is older.</span>`}
    ${again && html` <button class="plain" onClick=${again}>Try again</button>`}
  </p>`;

/** Drawn until the first answer is there; then its children, with the error above them if later ones fail. */
export function Loaded({ live, children, missing }) {
  if (live.data === null && live.error) {
    if (live.error.status === 404 && missing) return html`<${Empty}>${missing}<//>`;
    return html`<${Problem} error=${live.error} again=${live.again} />`;
  }
  if (live.data === null) return html`<p class="quiet loading" aria-busy="true">Reading …</p>`;
  return html`<${Problem} error=${live.error} stale=${true} again=${live.again} />${children(live.data)}`;
}

/** A name, which may be long or empty, never cut: it wraps. */
export const Name = ({ to, children }) => {
  const text = children === '' ? '(empty)' : children;
  return to ? html`<a class="name" href=${to}>${text}</a>` : html`<span class="name">${text}</span>`;
};

export const QueueLink = ({ vhost, name, tab }) =>
  html`<${Name} to=${link(['queues', vhost, name], { tab })}>${name}<//>`;
export const ExchangeLink = ({ vhost, name }) =>
  html`<${Name} to=${link(['exchanges', vhost, name === '' ? 'amq.default' : name])}>${name === '' ? '(default)' : name}<//>`;

/** One figure with its name. `note` below it. */
export const Figure = ({ label, value, note, to, kind = '', title }) => {
  const inside = html`<span class="label">${label}</span><span class="value">${value}</span>
    ${note !== undefined && html`<span class="note">${note}</span>`}`;
  return to ? html`<a class="figure ${kind}" href=${to} title=${title}>${inside}</a>`
    : html`<div class="figure ${kind}" title=${title}>${inside}</div>`;
};
export const Figures = ({ children }) => html`<div class="figures">${children}</div>`;

/** [[name, value], ...] as a list; pairs whose value is undefined are left out. */
export const Facts = ({ of }) => html`
  <dl class="facts">
    ${of.filter(([, value]) => value !== undefined && value !== null && value !== false).map(([name, value]) => html`
      <div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;

/** A table of arguments, headers or properties. */
export const Table = ({ of, none = 'none' }) => {
  const pairs = Object.entries(of ?? {});
  if (!pairs.length) return html`<span class="quiet">${none}</span>`;
  return html`<ul class="pairs">${pairs.map(([key, value]) => html`
    <li key=${key}><span class="key">${key}</span> <span class="data">${value === '' ? '""' : value_text(value)}</span></li>`)}</ul>`;
};

export const Time = ({ at }) => at ? html`<time title=${utc(at)}>${clock(at)}</time>` : DASH;

/** How far away, counting. */
export function Countdown({ at }) {
  const now = useNow();
  return at ? html`<time title=${`${clock(at)} · ${utc(at)}`}>${from_now(at, now)}</time>` : DASH;
}

export const Count = ({ of }) => html`<span class=${of ? '' : 'zero'}>${count(of)}</span>`;
export const Rate = ({ of }) => html`<span class=${of ? '' : 'zero'}>${rate(of)}</span>`;
export const Bytes = ({ of }) => html`<span class=${of ? '' : 'zero'}>${bytes(of)}</span>`;

/** What a queue is, in a few letters. */
export function QueueFeatures({ queue, all = false }) {
  const a = queue.arguments ?? {};
  return html`<span class="badges">
    ${all && queue.durable && html`<${Badge} title="Survives a restart of the broker">durable<//>`}
    ${queue.durable === false && html`<${Badge} title="Does not survive a restart of the broker">transient<//>`}
    ${queue.auto_delete && html`<${Badge} title="Deleted when its last consumer goes">auto-delete<//>`}
    ${queue.exclusive && html`<${Badge} title="Of one connection; deleted with it">exclusive<//>`}
    ${queue.type && queue.type !== 'classic' && html`<${Badge}>${queue.type}<//>`}
    ${a['x-delayed-retry-min'] !== undefined && html`<${Badge} kind="wait" title="A rejected message comes back later">retries<//>`}
    ${a['x-dead-letter-exchange'] !== undefined && html`<${Badge} title=${`Dead letters go to exchange "${a['x-dead-letter-exchange']}"`}>DLX<//>`}
    ${a['x-message-ttl'] !== undefined && html`<${Badge} title=${`Messages expire after ${a['x-message-ttl']} ms`}>TTL<//>`}
    ${a['x-max-priority'] !== undefined && html`<${Badge} title=${`Priorities 0 to ${a['x-max-priority']}`}>priorities<//>`}
    ${(a['x-max-length'] !== undefined || a['x-max-length-bytes'] !== undefined) && html`<${Badge} title="Its length is limited">limit<//>`}
    ${a['x-single-active-consumer'] && html`<${Badge} title="One consumer at a time">single active<//>`}
  </span>`;
}

/** Parts of a page that one switches between; which one is in the address. */
export const Tabs = ({ tabs, now, at }) => html`
  <nav class="tabs" aria-label="Parts of this page">
    ${tabs.map(([key, label, number]) => html`
      <a key=${key} href=${at(key)} aria-current=${now === key ? 'page' : undefined}>
        ${label}${number !== undefined && html` <span class="number">${count(number)}</span>`}
      </a>`)}
  </nav>`;
