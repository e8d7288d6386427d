// A table that can be sorted, shows a hundred rows until asked for more, and changes only the rows that have changed.

import {fill, h} from './dom.js';

const STEP = 100;

// table makes one. columns: {id, label, value(row) to sort by, cell(row) to show, numeric, wide}; key(row) names a row.
export function table({caption, columns, key, sort, descending, empty}) {
  const shown = new Map(); // by key: {row, tr}
  let rows = [];
  let limit = STEP;
  let by = sort;
  let down = Boolean(descending);

  const heads = columns.map((c) => h('th', {scope: 'col', class: c.numeric ? 'num' : '', data: {column: c.id}},
    c.value ? h('button', {type: 'button', onclick: () => order(c.id)}, c.label) : c.label));
  const body = h('tbody');
  const more = h('button', {type: 'button', class: 'plain more', onclick: () => { limit += 5 * STEP; draw(); }});
  const none = h('p', {class: 'quiet pad', hidden: true}, empty || 'Nothing here.');
  const element = h('div', {class: 'table-box'},
    h('div', {class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': caption},
      h('table', {}, h('caption', {class: 'hidden'}, caption), h('thead', {}, h('tr', {}, heads)), body)),
    none, more);

  function order(id) {
    down = by === id ? !down : Boolean(columns.find((c) => c.id === id).numeric);
    by = id;
    draw();
  }

  function draw() {
    columns.forEach((c, i) => {
      if (c.id === by) heads[i].setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else heads[i].removeAttribute('aria-sort');
    });
    const column = columns.find((c) => c.id === by);
    let list = rows;
    if (column) {
      list = rows.map((row) => [column.value(row), row]);
      list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
      list = list.map(([, row]) => row);
    }
    const want = list.slice(0, limit);
    const keep = new Set(want.map(key));
    for (const [k, {tr}] of shown) {
      if (keep.has(k)) continue;
      tr.remove();
      shown.delete(k);
    }
    let at = body.firstChild;
    for (const row of want) {
      const k = key(row);
      const have = shown.get(k);
      const tr = have && have.row === row ? have.tr : line(row);
      if (have && have.tr !== tr) {
        if (at === have.tr) at = at.nextSibling;
        have.tr.remove();
      }
      shown.set(k, {row, tr});
      if (tr === at) at = at.nextSibling;
      else body.insertBefore(tr, at);
    }
    more.hidden = list.length <= limit;
    fill(more, `Show more: ${list.length - want.length} left`);
    none.hidden = list.length > 0;
    element.firstElementChild.hidden = list.length === 0;
  }

  function line(row) {
    return h('tr', {}, columns.map((c, i) => h(i === 0 ? 'th' : 'td', {scope: i === 0 ? 'row' : null, class: [c.numeric && 'num', c.wide && 'wide'].filter(Boolean).join(' ')}, c.cell(row))));
  }

  return {
    element,
    update(list) {
      rows = list;
      draw();
    },
    // redraw makes every row anew, for cells that say how long ago something was.
    redraw() {
      shown.clear();
      fill(body);
      draw();
    },
  };
}
