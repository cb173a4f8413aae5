// Fields of forms. A form's values are one object; useForm gives it and what a field needs.
import { html, useRef, useState } from './lib.js';

export function useForm(initial) {
  const [values, set] = useState(initial);
  const change = (changes) => set((old) => ({ ...old, ...changes }));
  return [values, change];
}

let next_id = 1;
const useId = () => useRef(`f${next_id++}`).current;

export function Field({ label, hint, children }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>${children(id)}
    ${hint && html`<span class="hint">${hint}</span>`}</div>`;
}

export const Text = ({ label, hint, value, onChange, ...more }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(id) => html`<input id=${id} value=${value} onInput=${(e) => onChange(e.target.value)} autocomplete="off"
        spellcheck=${false} ...${more} />`}
  <//>`;

export const Area = ({ label, hint, value, onChange, ...more }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(id) => html`<textarea id=${id} value=${value} onInput=${(e) => onChange(e.target.value)} spellcheck=${false}
        ...${more} />`}
  <//>`;

/** options: [[value, text], ...] */
export const Choice = ({ label, hint, value, onChange, options, ...more }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(id) => html`<select id=${id} value=${value} onChange=${(e) => onChange(e.target.value)} ...${more}>
        ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
      </select>`}
  <//>`;

export const Check = ({ label, value, onChange, hint }) => html`
  <label class="check"><input type="checkbox" checked=${value} onChange=${(e) => onChange(e.target.checked)} />
    <span>${label}${hint && html` <span class="hint">${hint}</span>`}</span></label>`;

/** The rows of a table of arguments, from an object. */
export const rows_of = (object) => Object.entries(object ?? {}).map(([key, value]) =>
  ({ key, value: typeof value === 'string' ? value : JSON.stringify(value), kind: typeof value === 'string' ? 'text' : 'auto' }));

/**
 * The object that the rows say. A value of kind auto is JSON if it is JSON, else text: 500 is a number, true is true,
 * ["a"] a list. Throws an Error that names the row.
 */
export function object_of(rows) {
  const out = {};
  for (const { key, value, kind } of rows) {
    const name = key.trim();
    if (name === '' && value.trim() === '') continue;
    if (name === '') throw new Error(`The value "${value}" has no name.`);
    if (name in out) throw new Error(`"${name}" is there twice.`);
    out[name] = kind === 'text' ? value : from_text(value);
  }
  return out;
}

function from_text(value) {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** Rows of key and value. `known`: {key: what it is for}, offered while one types. */
export function Pairs({ label, rows, onChange, known = {}, hint }) {
  const id = useId();
  const change = (i, changes) => onChange(rows.map((row, k) => (k === i ? { ...row, ...changes } : row)));
  return html`
    <fieldset class="field pairs-field">
      <legend>${label}</legend>
      ${rows.map((row, i) => html`
        <div class="pair" key=${i}>
          <input aria-label="Name ${i + 1}" placeholder="name" value=${row.key} list=${id} spellcheck=${false}
            autocomplete="off" onInput=${(e) => change(i, { key: e.target.value })} />
          <input aria-label="Value ${i + 1}" placeholder="value" value=${row.value} spellcheck=${false} autocomplete="off"
            onInput=${(e) => change(i, { value: e.target.value })} />
          <select aria-label="Kind ${i + 1}" value=${row.kind} onChange=${(e) => change(i, { kind: e.target.value })}>
            <option value="auto" selected=${row.kind === 'auto'}>auto</option>
            <option value="text" selected=${row.kind === 'text'}>text</option>
          </select>
          <button type="button" class="plain" aria-label="Remove row ${i + 1}"
            onClick=${() => onChange(rows.filter((_, k) => k !== i))}>✕</button>
          ${known[row.key] && html`<span class="hint">${known[row.key]}</span>`}
        </div>`)}
      <button type="button" onClick=${() => onChange([...rows, { key: '', value: '', kind: 'auto' }])}>Add a row</button>
      ${rows.length > 0 && html` <span class="hint">auto: 500 is a number, true is true, ["a"] a list, the rest text.</span>`}
      ${hint && html` <span class="hint">${hint}</span>`}
      <datalist id=${id}>${Object.entries(known).map(([key, text]) => html`<option key=${key} value=${key}>${text}</option>`)}</datalist>
    </fieldset>`;
}
