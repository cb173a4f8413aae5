// The retry schedule of a queue: what was declared, what an operator put over it, what counts.
import { del, path, put } from '../js/api.js';
import { Form, ask, attempt, confirm, done } from '../js/dialog.js';
import { count, duration } from '../js/format.js';
import { html, useState } from '../js/lib.js';
import { useLive } from '../js/live.js';
import { Loaded, Panel } from '../js/parts.js';
import { Preview, RETRY_KEYS, RetryFields, Schedule, retry_values } from './schedule.js';

function shown(key, value) {
  if (value === undefined || value === null) return html`<span class="quiet">–</span>`;
  if (key === 'min' || key === 'max' || key === 'max_age') return html`<span title="${count(value)} ms">${duration(value)}</span>`;
  return key === 'jitter' ? `${value} %` : count(value);
}

const texts_of = (values) => Object.fromEntries(RETRY_KEYS.map(([key]) => [key, values?.[key] ?? '']).filter(([, v]) => v !== '').map(([key, v]) => [key, String(v)]));

function Override({ close, here, data }) {
  const [texts, set] = useState(texts_of(data.override));
  const given = Object.fromEntries(Object.entries(texts).filter(([, text]) => text.trim() !== ''));
  return html`
    <${Form} close=${close} action="Put it in force" send=${() => put(here, retry_values(texts))}>
      <p>These values replace the declared ones for rejections from now on; an empty field leaves the declared one, which is shown in it. What waits already keeps its time.</p>
      <${RetryFields} values=${texts} declared=${data.declared} change=${(changes) => set({ ...texts, ...changes })} />
      <${Preview} texts=${{ ...texts_of(data.declared), ...given }} />
    <//>`;
}

export function QueueRetry({ vhost, name }) {
  const here = path`queues/${vhost}/${name}/retry`;
  const live = useLive(here);
  const change = async () => {
    if (await ask('Override the schedule', (close) => html`<${Override} close=${close} here=${here} data=${live.data} />`)) {
      done('The override is in force.');
      live.again();
    }
  };
  const remove = async () => {
    const sure = await confirm({ title: 'Remove the override?', text: 'The declared values count again, for rejections from now on.', action: 'Remove it', danger: false });
    if (sure && await attempt(() => del(here), 'The override is removed.')) live.again();
  };
  return html`
    <${Loaded} live=${live} missing="This broker does not show retry schedules.">${(data) => {
      const over = data.override && Object.keys(data.override).length > 0 ? data.override : null;
      return html`
        <div class="columns">
          <${Panel} title="Schedule"><${Schedule} of=${data} /><//>
          <${Panel} title="Values" tools=${html`<button onClick=${change}>${over ? 'Change the override …' : 'Override …'}</button>
              ${over && html`<button onClick=${remove}>Remove it …</button>`}`}>
            <table class="rows"><thead><tr><th scope="col">Value</th><th scope="col" class="num">Declared</th><th scope="col" class="num">Override</th><th scope="col" class="num">In force</th></tr></thead>
              <tbody>${[...RETRY_KEYS, ['type', 'Type']].map(([key, label]) => html`
                <tr key=${key}><th scope="row">${label}</th>
                  ${key === 'type' ? html`<td class="num">${data.declared?.type ?? html`<span class="quiet">–</span>`}</td><td class="num quiet">–</td><td class="num">${data.effective?.type ?? html`<span class="quiet">–</span>`}</td>`
                    : html`<td class="num">${shown(key, data.declared?.[key])}</td><td class="num">${shown(key, over?.[key])}</td><td class="num strong">${shown(key, data.effective?.[key])}</td>`}
                </tr>`)}</tbody></table>
            <p class="quiet">The declared values stay what a client must declare; an override is kept over restarts.</p>
          <//>
        </div>`;
    }}<//>`;
}
