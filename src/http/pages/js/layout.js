// The frame of every page: name, menu, vhost, refresh, light or dark, who is logged in.
import { log_out, may, reach, session } from './api.js';
import { Dialogs, ask } from './dialog.js';
import { clock } from './format.js';
import { html, useEffect, useState } from './lib.js';
import { refresh, scope, useLive } from './live.js';
import { link, route } from './route.js';
import { choice } from './theme_switch.js';
import { useNarrow, useStore } from './use.js';

/** [first part of the address, name, key after g, shown to whom] */
const MENU = [
  ['', 'Overview', 'o'],
  ['connections', 'Connections', 'c'],
  ['channels', 'Channels', 'h'],
  ['consumers', 'Consumers', 'n'],
  ['exchanges', 'Exchanges', 'e'],
  ['queues', 'Queues', 'q'],
  ['retries', 'Retries', 'r'],
  ['dead-letters', 'Dead letters', 'd'],
  ['policies', 'Policies', 'p', (can) => can.policymaker],
  ['users', 'Users', 'u', (can) => can.administrator],
  ['vhosts', 'Vhosts', 'v'],
  ['logs', 'Logs', 'l', (can) => can.monitoring],
];
const menu_of = (can) => MENU.filter(([, , , shown]) => !shown || shown(can));

function help() {
  return ask('Keys', () => html`
    <dl class="keys">
      <div><dt><kbd>/</kbd></dt><dd>to the filter of the list</dd></div>
      ${menu_of(may()).map(([way, name, key]) => html`<div key=${way}><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${name}</dd></div>`)}
      <div><dt><kbd>Esc</kbd></dt><dd>closes a dialog</dd></div>
      <div><dt><kbd>?</kbd></dt><dd>this list</dd></div>
    </dl>
    <p class="quiet">Everything else is reached with Tab and Enter.</p>`);
}

/** Keys for those who stay at the keyboard; none while one types. */
function useKeys() {
  useEffect(() => {
    let after_g = 0;
    function pressed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (event.target.closest('input, textarea, select, [contenteditable]')) return;
      if (event.key === '/') {
        const field = document.querySelector('[data-filter]');
        if (field) { event.preventDefault(); field.focus(); field.select(); }
      } else if (event.key === '?') {
        help();
      } else if (event.key === 'g') {
        after_g = Date.now();
      } else if (Date.now() - after_g < 1500) {
        after_g = 0;
        const found = menu_of(may()).find(([, , key]) => key === event.key);
        if (found) location.hash = link([found[0]]);
      }
    }
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

function Menu({ here, folded }) {
  return html`
    <nav class="menu" id="menu" aria-label="Pages" hidden=${folded}>
      ${menu_of(may()).map(([way, name]) => html`
        <a key=${way} href=${link([way])} aria-current=${here === way ? 'page' : undefined}>${name}</a>`)}
    </nav>`;
}

function VhostChoice() {
  const chosen = useStore(scope);
  const live = useLive('vhosts?columns=name', { every: false });
  const names = (live.data ?? []).map((v) => v.name);
  useEffect(() => {   // it was deleted, or is another user's
    if (live.data && chosen && !names.includes(chosen)) scope.write('');
  }, [live.data]);
  if (names.length < 2 && !chosen) return null;
  return html`<select aria-label="Virtual host" title="Virtual host" value=${chosen} onChange=${(e) => scope.write(e.target.value)}>
      <option value="" selected=${chosen === ''}>all vhosts</option>
      ${names.map((name) => html`<option key=${name} value=${name} selected=${name === chosen}>${name}</option>`)}
    </select>`;
}

const RefreshChoice = () => {
  const seconds = useStore(refresh);
  return html`<select aria-label="Refresh" title="How often figures are read" onChange=${(e) => refresh.write(Number(e.target.value))}>
      ${[[2, 'every 2 s'], [5, 'every 5 s'], [30, 'every 30 s'], [0, 'not live']].map(([n, text]) => html`
        <option key=${n} value=${n} selected=${n === seconds}>${text}</option>`)}
    </select>`;
};

const ThemeChoice = () => {
  const now = useStore(choice);
  return html`<select aria-label="Light or dark" title="Light or dark" onChange=${(e) => choice.write(e.target.value)}>
      ${[['', 'as system'], ['light', 'light'], ['dark', 'dark']].map(([key, text]) => html`
        <option key=${key} value=${key} selected=${key === now}>${text}</option>`)}
    </select>`;
};

function Reach() {
  const { ok, at } = useStore(reach);
  const seconds = useStore(refresh);
  if (ok) return null;
  return html`<p class="problem bar" role="alert">The broker does not answer${at ? `; what is shown is from ${clock(at)}` : ''}.
    ${seconds > 0 ? `It is asked again every ${seconds} s.` : 'It is asked again when you choose how often figures are read.'}</p>`;
}

/** What stops publishers is told on every page: who looks at a quiet queue has to know. The overview says more. */
function Alarm() {
  const { data } = useLive('overview?columns=disk_alarm,memory_alarm');
  const what = [data?.disk_alarm && 'the disk is nearly full', data?.memory_alarm && 'memory is over its limit'].filter(Boolean);
  if (what.length === 0) return null;
  return html`<p class="problem bar" role="alert">Publishers are blocked: ${what.join(', and ')}. <a href="#/">More</a></p>`;
}

export function Layout({ children }) {
  const { parts } = useStore(route);
  const narrow = useNarrow();
  const who = useStore(session);
  const [unfolded, unfold] = useState(false);
  useKeys();
  useEffect(() => unfold(false), [parts.join('/')]);
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus(); }}>To the content</a>
    <header class="top">
      ${narrow && html`<button aria-expanded=${unfolded} aria-controls="menu" onClick=${() => unfold(!unfolded)}>Menu</button>`}
      <a class="brand" href="#/">TarryMQ</a>
      <span class="spring" />
      <${VhostChoice} key=${who.name} />
      ${(!narrow || unfolded) && html`<${RefreshChoice} /><${ThemeChoice} />
        <button class="plain" onClick=${help} aria-label="Keys" title="Keys (?)">?</button>`}
      <span class="who"><span class="name" title=${`tags: ${who.tags.join(', ')}`}>${who.name}</span>
        <button onClick=${() => log_out('')}>Log out</button></span>
    </header>
    <div class="body">
      <${Menu} here=${parts[0] ?? ''} folded=${narrow && !unfolded} />
      <main id="main" tabindex="-1"><${Reach} />${(parts[0] ?? '') !== '' && html`<${Alarm} />`}${children}</main>
    </div>
    <${Dialogs} />`;
}

/** The head of a page. */
export const Title = ({ children, note, tools }) => html`
  <div class="title"><h1>${children}</h1>${note && html`<span class="quiet">${note}</span>`}
    <div class="tools">${tools}</div></div>`;
