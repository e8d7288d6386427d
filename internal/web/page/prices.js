// What instances cost, and what is out of stock.

import {badge, fill, h} from './dom.js';
import {cores, count, hourly, memory, moment, plural, seconds, span} from './format.js';
import {aborted, messageOf} from './store.js';
import {table} from './table.js';

/** @typedef {Omit<api.PriceModel, 'offers'> & api.OfferModel & {core: number}} Offer */

/** @param {{instanceType: string, zone: string, capacityType: string}} o */
const nameOf = (o) => `${o.instanceType} ${o.zone} ${o.capacityType}`;

/** @param {ui.Context} context @returns {ui.View} */
export function prices({store}) {
  const stop = new AbortController();
  const lists = h('p', {class: 'quiet'});
  const outs = h('div', {});
  /** @type {ReturnType<typeof table<Offer>>} */
  const rows = table({
    caption: 'Prices', key: (o) => `${nameOf(o)} ${o.priceOverlay || ''} ${o.pricePerHour}`, sort: 'price', empty: 'No offering matches.',
    columns: [
      {id: 'type', label: 'Type', value: (o) => o.instanceType, cell: (o) => o.instanceType},
      {id: 'zone', label: 'Zone', value: (o) => o.zone, cell: (o) => o.zone},
      {id: 'capacity-type', label: 'Capacity type', value: (o) => o.capacityType, cell: (o) => h('span', {class: 'swatched'}, h('span', {class: 'swatch', data: {c: o.capacityType}}), o.capacityType)},
      {id: 'cpu', label: 'CPU', numeric: true, value: (o) => o.cpuMillicores, cell: (o) => cores(o.cpuMillicores)},
      {id: 'memory', label: 'Memory', numeric: true, value: (o) => o.memoryBytes, cell: (o) => memory(o.memoryBytes)},
      {id: 'price', label: 'Price', numeric: true, value: (o) => o.pricePerHour, cell: (o) => (o.priceOverlay ? h('span', {title: `NodeOverlay ${o.priceOverlay}; list price ${hourly(o.listPricePerHour || 0)}`}, hourly(o.pricePerHour), ' ', badge(o.priceOverlay)) : hourly(o.pricePerHour))},
      {id: 'core', label: 'Per CPU', numeric: true, value: (o) => o.core, cell: (o) => hourly(o.core)},
      {id: 'nodes', label: 'Nodes of the type', numeric: true, value: (o) => o.nodes, cell: (o) => (o.nodes ? count(o.nodes) : '–')},
      {id: 'out', label: 'Stock', value: (o) => (o.outOfStock ? 0 : 1), cell: (o) => (o.outOfStock ? badge('out of stock', 'bad') : badge('available', 'good'))},
    ],
  });
  /** @type {Offer[]} */
  let all = [];
  const filter = h('input', {type: 'search', placeholder: 'Filter, for example m6i spot us-west-2a', 'aria-label': 'Filter the prices', oninput: () => draw()});

  function draw() {
    const words = filter.value.trim().toLowerCase().split(/\s+/);
    rows.update(all.filter((o) => words.every((w) => nameOf(o).includes(w))));
  }

  /** @param {api.StockOut[]} list */
  function stock(list) {
    const short = all.filter((o) => o.outOfStock);
    const until = new Map(list.map((o) => [nameOf(o), o.until]));
    fill(outs, h('h2', {}, 'Out of stock'), short.length === 0 ? h('p', {class: 'quiet'}, 'Everything that pools may launch is thought to be available.')
      : h('ul', {class: 'chips'}, short.slice(0, 60).map((o) => {
        const end = until.get(nameOf(o));
        return h('li', {title: end ? moment(end) : ''}, `${o.instanceType} · ${o.zone} · ${o.capacityType}`, end && h('span', {class: 'quiet'}, ` tried again in ${span(seconds(end) - store.now())}`));
      })), short.length > 60 && h('p', {class: 'quiet'}, `and ${short.length - 60} more: sort the table by stock`));
  }

  async function load() {
    try {
      /** @type {api.PriceListDocument} */
      const got = await store.json('prices', stop.signal);
      all = got.instanceTypes.flatMap(({offers, ...t}) => offers.map((o) => ({...o, ...t, core: t.cpuMillicores > 0 ? 1000 * o.pricePerHour / t.cpuMillicores : 0})));
      fill(lists, `${plural(got.instanceTypes.length, 'type')}, ${plural(all.length, 'offering')}. `, (got.lists || []).map((l) => `${l.name}: ${l.at ? moment(l.at) : 'built in'}. `));
      stock(got.stockOuts || []);
      draw();
    } catch (error) {
      if (!aborted(error)) fill(lists, h('span', {class: 'trouble'}, messageOf(error)));
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
