// A table that can be sorted, shows a hundred rows until asked for more, and changes only the rows that have changed.

import {fill, h} from './dom.js';

const STEP = 100;

// table makes one; its key names a row.
/** @template T @param {ui.Table<T>} options */
export function table({caption, columns, key, sort, descending, empty}) {
  /** @type {Map<string, {row: T, tr: HTMLTableRowElement}>} */
  const shown = new Map(); // by key
  /** @type {T[]} */
  let rows = [];
  let limit = STEP;
  let by = sort;
  let down = Boolean(descending);

  const heads = columns.map((c) => h('th', {scope: 'col', class: c.numeric ? 'num' : '', data: {column: c.id}},
    c.value ? h('button', {type: 'button', onclick: () => order(c.id)}, c.label) : c.label));
  const body = h('tbody');
  const more = h('button', {type: 'button', class: 'plain more', onclick: () => { limit += 5 * STEP; draw(); }});
  const none = h('p', {class: 'quiet pad', hidden: true}, empty || 'Nothing here.');
  const scroll = h('div', {class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': caption},
    h('table', {}, h('caption', {class: 'hidden'}, caption), h('thead', {}, h('tr', {}, heads)), body));
  const element = h('div', {class: 'table-box'}, scroll, none, more);

  /** @param {string} id */
  function order(id) {
    down = by === id ? !down : Boolean(columns.find((c) => c.id === id)?.numeric);
    by = id;
    draw();
  }

  function draw() {
    columns.forEach((c, i) => {
      if (c.id === by) heads[i].setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else heads[i].removeAttribute('aria-sort');
    });
    const value = columns.find((c) => c.id === by)?.value;
    let list = rows;
    if (value) {
      list = rows.map((row) => ({by: value(row), row}))
        .sort((a, b) => (a.by < b.by ? -1 : a.by > b.by ? 1 : 0) * (down ? -1 : 1))
        .map(({row}) => row);
    }
    const want = list.slice(0, limit);
    const keep = new Set(want.map(key));
    for (const [k, {tr}] of shown) {
      if (keep.has(k)) continue;
      tr.remove();
      shown.delete(k);
    }
    let at = /** @type {ChildNode | null} */ (body.firstChild);
    for (const row of want) {
      const k = key(row);
      const have = shown.get(k);
      const tr = have && have.row === row ? have.tr : line(row);
      if (have && have.tr !== tr) {
        if (at === have.tr) at = at.nextSibling;
        have.tr.remove();
      }
      shown.set(k, {row, tr});
      if (at === tr) at = at.nextSibling;
      else body.insertBefore(tr, at);
    }
    more.hidden = list.length <= limit;
    fill(more, `Show more: ${list.length - want.length} left`);
    none.hidden = list.length > 0;
    scroll.hidden = list.length === 0;
  }

  /** @param {T} row */
  function line(row) {
    return h('tr', {}, columns.map((c, i) => h(i === 0 ? 'th' : 'td', {scope: i === 0 ? 'row' : null, class: [c.numeric && 'num', c.wide && 'wide'].filter(Boolean).join(' ')}, c.cell(row))));
  }

  return {
    element,
    /** @param {T[]} list */
    update(list) {
      rows = list;
      draw();
    },
  };
}
