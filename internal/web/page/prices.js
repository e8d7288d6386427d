// What instances cost, and what is out of stock.

import {badge, fill, h} from './dom.js';
import {cores, count, hourly, memory, moment, plural, span} from './format.js';
import {table} from './table.js';

export function prices({store}) {
  const stop = new AbortController();
  const lists = h('p', {class: 'quiet'});
  const outs = h('div', {});
  const rows = table({
    caption: 'Prices', key: (o) => `${o.type} ${o.zone} ${o.market}`, sort: 'price', empty: 'No offering matches.',
    columns: [
      {id: 'type', label: 'Type', value: (o) => o.type, cell: (o) => o.type},
      {id: 'zone', label: 'Zone', value: (o) => o.zone, cell: (o) => o.zone},
      {id: 'market', label: 'Capacity type', value: (o) => o.market, cell: (o) => h('span', {class: 'market'}, h('span', {class: 'swatch', data: {c: o.market}}), o.market)},
      {id: 'cpu', label: 'CPU', numeric: true, value: (o) => o.cpu, cell: (o) => cores(o.cpu)},
      {id: 'memory', label: 'Memory', numeric: true, value: (o) => o.memory, cell: (o) => memory(o.memory)},
      {id: 'price', label: 'Price', numeric: true, value: (o) => o.price, cell: (o) => hourly(o.price)},
      {id: 'core', label: 'Per CPU', numeric: true, value: (o) => o.core, cell: (o) => hourly(o.core)},
      {id: 'nodes', label: 'Nodes of the type', numeric: true, value: (o) => o.nodes, cell: (o) => (o.nodes ? count(o.nodes) : '–')},
      {id: 'out', label: 'Stock', value: (o) => (o.out ? 0 : 1), cell: (o) => (o.out ? badge('out of stock', 'bad') : badge('available', 'good'))},
    ],
  });
  let all = [];
  const filter = h('input', {type: 'search', placeholder: 'Filter, for example m6i spot us-west-2a', 'aria-label': 'Filter the prices', oninput: () => draw()});

  function draw() {
    const words = filter.value.trim().toLowerCase().split(/\s+/);
    rows.update(all.filter((o) => words.every((w) => `${o.type} ${o.zone} ${o.market}`.includes(w))));
  }

  function stock(list) {
    const short = all.filter((o) => o.out);
    const until = new Map(list.map((o) => [`${o.type} ${o.zone} ${o.capacityType}`, o.until]));
    fill(outs, h('h2', {}, 'Out of stock'), short.length === 0 ? h('p', {class: 'quiet'}, 'Everything that pools may launch is thought to be available.')
      : h('ul', {class: 'chips'}, short.slice(0, 60).map((o) => {
        const end = until.get(`${o.type} ${o.zone} ${o.market}`);
        return h('li', {title: end ? moment(end) : ''}, `${o.type} · ${o.zone} · ${o.market}`, end && h('span', {class: 'quiet'}, ` tried again in ${span(new Date(end) / 1000 - store.now())}`));
      })), short.length > 60 && h('p', {class: 'quiet'}, `and ${short.length - 60} more: sort the table by stock`));
  }

  async function load() {
    try {
      const got = await store.json('prices', stop.signal);
      all = got.types.flatMap((t) => t.offers.map((o) => ({...o, type: t.type, cpu: t.cpu, memory: t.memory, nodes: t.nodes, core: t.cpu > 0 ? 1000 * o.price / t.cpu : 0})));
      fill(lists, `${plural(got.types.length, 'type')}, ${plural(all.length, 'offering')}. `, (got.lists || []).map((l) => `${l.name}: ${l.at ? moment(l.at) : 'built in'}. `));
      stock(got.stockOuts || []);
      draw();
    } catch (error) {
      if (error.name !== 'AbortError') fill(lists, h('span', {class: 'trouble'}, error.message));
    }
  }

  load();
  const again = setInterval(load, 60000);
  return {
    title: 'Prices',
    element: h('div', {class: 'page'}, h('div', {class: 'head'}, h('h1', {}, 'Prices and stock'), h('p', {class: 'quiet'}, 'What pools could launch now, at the prices that decisions are made with.'), lists),
      h('section', {class: 'card'}, outs), h('div', {class: 'controls'}, filter), h('section', {class: 'card'}, rows.element)),
    close() {
      stop.abort();
      clearInterval(again);
    },
  };
}
