// Lists: a toolbar (filter, pages) and a table; sorting, filtering and paging are the API's. What is chosen is in the
// address. On a narrow screen each row becomes a small list of name and value.
import { ApiError, query } from './api.js';
import { count } from './format.js';
import { html, useEffect, useRef, useState } from './lib.js';
import { useLive } from './live.js';
import { Empty, Loaded } from './parts.js';
import { search_for, route } from './route.js';
import { useNarrow, useSettled, useStore } from './use.js';

const PAGE_SIZES = ['25', '50', '100', '500'];

/**
 * columns: {key, label, cell(row), sort?: dotted path, num?: right-aligned, title?}; on a narrow screen wide? ones are
 * left out, and of the others zeros, but for always? ones. The first column is a row's heading. `selected`: a Set of keys, with `onSelect(set)`.
 */
export function Rows({ label, columns, rows, row_key, sort, reverse, onSort, selected, onSelect }) {
  const narrow = useNarrow();
  const shown = columns.filter((c) => !(narrow && c.wide));
  const all = rows.length > 0 && selected !== undefined && rows.every((row) => selected.has(row_key(row)));
  const toggle = (keys, on) => {
    const next = new Set(selected);
    for (const key of keys) on ? next.add(key) : next.delete(key);
    onSelect(next);
  };
  return html`
    <div class="table-frame" tabindex="0" role="region" aria-label=${label}>
      <table class=${narrow ? 'rows narrow' : 'rows'} role="table" aria-label=${label}>
        <thead role="rowgroup"><tr role="row">
          ${selected && html`<th role="columnheader" class="pick"><input type="checkbox" aria-label="All rows of this page"
              checked=${all} onChange=${(e) => toggle(rows.map(row_key), e.target.checked)} /></th>`}
          ${shown.map((c) => html`
            <th key=${c.key} role="columnheader" class=${c.num ? 'num' : ''} title=${c.title} scope="col"
              aria-sort=${c.sort && sort === c.sort ? (reverse ? 'descending' : 'ascending') : undefined}>
              ${c.sort && onSort
                ? html`<button class="sort" onClick=${() => onSort(c.sort, sort === c.sort ? !reverse : Boolean(c.num))}>${c.label}</button>`
                : c.label || html`<span class="unseen">Actions</span>`}
            </th>`)}
        </tr></thead>
        <tbody role="rowgroup">
          ${rows.map((row) => html`
            <tr key=${row_key(row)} role="row" class=${selected?.has(row_key(row)) ? 'picked' : ''}>
              ${selected && html`<td role="cell" class="pick"><input type="checkbox" aria-label="Select ${row_key(row)}"
                  checked=${selected.has(row_key(row))} onChange=${(e) => toggle([row_key(row)], e.target.checked)} /></td>`}
              ${shown.map((c, i) => {
                const inside = c.cell(row);
                if (narrow && inside === '') return null;
                return html`<td key=${c.key} role="cell" class="${c.num ? 'num' : ''} ${i === 0 ? 'heading' : ''} ${c.num && !c.always ? 'may-go' : ''}">
                  ${narrow && i > 0 && html`<span class="in-row" aria-hidden="true">${c.label}</span>`}${inside}</td>`;
              })}
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

const Pager = ({ page, pages, filtered, total, size, change }) => html`
  <div class="pager">
    <span class="quiet">${filtered === total ? count(total) : `${count(filtered)} of ${count(total)}`}</span>
    ${pages > 1 && html`
      <button aria-label="First page" disabled=${page <= 1} onClick=${() => change({ page: '' })}>«</button>
      <button aria-label="Page before" disabled=${page <= 1} onClick=${() => change({ page: page - 1 })}>‹</button>
      <span>page ${count(page)} of ${count(pages)}</span>
      <button aria-label="Next page" disabled=${page >= pages} onClick=${() => change({ page: page + 1 })}>›</button>
      <button aria-label="Last page" disabled=${page >= pages} onClick=${() => change({ page: pages })}>»</button>`}
    ${total > Number(PAGE_SIZES[0]) && html`
      <select aria-label="Rows on a page" value=${size} onChange=${(e) => change({ size: e.target.value, page: '' })}>
        ${PAGE_SIZES.map((n) => html`<option key=${n} value=${n} selected=${n === String(size)}>${n} a page</option>`)}
      </select>`}
  </div>`;

/** The text that names must hold; it is in the address once one pauses. */
function Filter({ search, change, what }) {
  const [text, set_text] = useState(search.name ?? '');
  const settled = useSettled(text, 250);
  const sent = useRef(search.name ?? '');
  useEffect(() => {
    if (settled === sent.current) return;
    sent.current = settled;
    change({ name: settled, page: '' });
  }, [settled]);
  useEffect(() => {   // back and forward change it from outside
    if ((search.name ?? '') !== sent.current) {
      sent.current = search.name ?? '';
      set_text(sent.current);
    }
  }, [search.name]);
  return html`
    <div class="filter">
      <input type="search" data-filter aria-label="Filter ${what}" placeholder="Filter ${what}  ( / )" value=${text}
        onInput=${(e) => set_text(e.target.value)} spellcheck=${false} autocomplete="off" />
      <label class="check"><input type="checkbox" checked=${search.regex === '1'}
        onChange=${(e) => change({ regex: e.target.checked ? '1' : '', page: '' })} /><span>regex</span></label>
    </div>`;
}

/**
 * A list that the API pages. `path`: null while it is not known. `fixed`: more parameters of the query. `name_pattern`
 * (text, is_regex) -> {name, use_regex} for lists whose names the user does not type in full.
 */
export function List({ path, what, columns, row_key, sort: first_sort, reverse: first_reverse = false, fixed = {}, empty, tools,
  selected, onSelect, name_pattern, filter = true, live_out }) {
  const narrow = useNarrow();
  const { search } = useStore(route);
  const sort = search.sort ?? first_sort;
  const reverse = search.sort ? search.desc === '1' : first_reverse;
  const size = search.size ?? '50';
  const page = Math.max(1, Number(search.page) || 1);
  const names = name_pattern ? name_pattern(search.name ?? '', search.regex === '1')
    : { name: search.name, use_regex: search.name && search.regex === '1' };
  const live = useLive(path === null ? null : query(path, { page, page_size: size, sort, sort_reverse: reverse, ...names, ...fixed }));
  if (live_out) live_out.again = live.again;
  useEffect(() => {   // what was on this page is gone
    if (live.error instanceof ApiError && live.error.message.startsWith('page out of range')) change({ page: '' });
  }, [live.error]);
  const change = (changes) => search_for(changes, true);
  const on_sort = (by, down) => change({ sort: by, desc: down ? '1' : '', page: '' });
  const sortable = columns.filter((c) => c.sort);

  // A list that is not paged is answered as a bare array.
  const body = Array.isArray(live.data)
    ? { items: live.data, page: 1, page_count: 1, filtered_count: live.data.length, total_count: live.data.length } : live.data;
  const busy = search.name || body?.total_count > 0;   // also when the filter is what is wrong
  return html`
    ${(busy || tools) && html`<div class="toolbar">
      ${filter && busy && html`<${Filter} search=${search} change=${change} what=${what} />`}
      ${narrow && busy && sortable.length > 0 && html`
        <select aria-label="Sorted by" onChange=${(e) => on_sort(e.target.value, Boolean(sortable.find((c) => c.sort === e.target.value)?.num))}>
          ${!sortable.some((c) => c.sort === sort) && html`<option value="">sort by …</option>`}
          ${sortable.map((c) => html`<option key=${c.key} value=${c.sort} selected=${c.sort === sort}>by ${c.label}</option>`)}
        </select>`}
      ${tools}
      <span class="spring" />
      ${busy && body && html`<${Pager} page=${body.page} pages=${body.page_count} filtered=${body.filtered_count}
          total=${body.total_count} size=${size} change=${change} />`}
    </div>`}
    <${Loaded} live=${{ ...live, data: body }}>
      ${() => body.items.length === 0
        ? html`<${Empty}>${search.name ? html`No ${what} with "${search.name}" in the name. <button class="plain"
              onClick=${() => change({ name: '', page: '' })}>Show all</button>` : empty}<//>`
        : html`<${Rows} label=${what} columns=${columns} rows=${body.items} row_key=${row_key} sort=${sort} reverse=${reverse}
            onSort=${on_sort} selected=${selected} onSelect=${onSelect} />`}
    <//>`;
}
