// Questions, forms and short messages over the page.
import { html, store, useEffect, useRef, useState } from './lib.js';
import { useStore } from './use.js';

const open = store([]);       // [{id, title, view, answer}], the last on top
const messages = store([]);   // [{id, kind, text}]
let next_id = 1;

/** Shows `view(close)` in a dialog; the promise is what close() got, undefined after Escape. */
export function ask(title, view) {
  return new Promise((answer) => open.write([...open.read(), { id: next_id++, title, view, answer }]));
}

/** One question before something that cannot be undone. True: yes. */
export function confirm({ title, text, action, danger = true }) {
  return ask(title, (close) => html`
    <div class="text">${text}</div>
    <div class="buttons">
      <button type="button" onClick=${() => close(false)} data-first>Cancel</button>
      <button type="button" class=${danger ? 'danger' : 'primary'} onClick=${() => close(true)}>${action}</button>
    </div>`).then((yes) => yes === true);
}

function say(kind, text) {
  const id = next_id++;
  messages.write([...messages.read().slice(-3), { id, kind, text }]);
  if (kind === 'done') setTimeout(() => dismiss(id), 6000);
}
const dismiss = (id) => messages.write(messages.read().filter((m) => m.id !== id));

export const done = (text) => say('done', text);
export const failed = (text) => say('failed', text);

/** Does it and tells how it ended. True: it worked. */
export async function attempt(work, text) {
  try {
    const result = await work();
    if (text) done(typeof text === 'function' ? text(result) : text);
    return true;
  } catch (error) {
    failed(error.message);
    return false;
  }
}

function Dialog({ id, title, view, answer, is_top }) {
  const element = useRef(null);
  const close = (value) => {
    element.current?.close();   // while it is still there: so the focus goes back to where it was
    open.write(open.read().filter((d) => d.id !== id));
    answer(value);
  };
  useEffect(() => {
    element.current.showModal();
    element.current.querySelector('[data-first], input, select, textarea')?.focus();
  }, []);
  return html`
    <dialog ref=${element} aria-labelledby=${`title-${id}`} onCancel=${(e) => { e.preventDefault(); close(undefined); }}>
      <header><h2 id=${`title-${id}`}>${title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick=${() => close(undefined)}>✕</button></header>
      ${view(close)}
      ${is_top && html`<${Messages} />`}
    </dialog>`;
}

function Messages() {
  const said = useStore(messages);
  return html`
    <div class="messages" role="status" aria-live="polite">
      ${said.map((m) => html`
        <div key=${m.id} class="message ${m.kind}"><span>${m.text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick=${() => dismiss(m.id)}>✕</button></div>`)}
    </div>`;
}

/** What lies over the page. Messages are in the dialog on top: what is outside of it is out of reach while it is open. */
export function Dialogs() {
  const now = useStore(open);
  useEffect(() => () => {   // after a log-out whoever comes next is asked nothing that the one before began
    for (const { answer } of open.read()) answer(undefined);
    open.write([]);
    messages.write([]);
  }, []);
  return html`
    ${now.map((d, i) => html`<${Dialog} key=${d.id} ...${d} is_top=${i === now.length - 1} />`)}
    ${now.length === 0 && html`<${Messages} />`}`;
}

/** A form in a dialog. `send(values)` may throw: then its message is shown and the form stays. */
export function Form({ close, action, danger = false, send, children }) {
  const [error, set_error] = useState(null);
  const [busy, set_busy] = useState(false);
  async function submit(event) {
    event.preventDefault();
    set_busy(true);
    try {
      close((await send()) ?? true);
    } catch (problem) {
      set_error(problem);
      set_busy(false);
    }
  }
  return html`
    <form onSubmit=${submit} class="form">
      ${children}
      ${error && html`<p class="problem" role="alert">${error.message}</p>`}
      <div class="buttons">
        <button type="button" onClick=${() => close(undefined)}>Cancel</button>
        <button class=${danger ? 'danger' : 'primary'} disabled=${busy}>${action}</button>
      </div>
    </form>`;
}
