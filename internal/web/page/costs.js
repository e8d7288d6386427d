// What namespaces and workloads cost.

import {fill, h} from './dom.js';
import {count, hourly, monthly} from './format.js';
import {aborted, messageOf} from './store.js';
import {table} from './table.js';

/** @type {ui.Column<api.CostShare>[]} */
const amounts = [
  {id: 'pods', label: 'Pods', numeric: true, value: (c) => c.podCount, cell: (c) => count(c.podCount)},
  {id: 'price', label: 'Cost', numeric: true, value: (c) => c.pricePerHour, cell: (c) => hourly(c.pricePerHour)},
  {id: 'month', label: 'A month', numeric: true, value: (c) => c.pricePerHour, cell: (c) => monthly(c.pricePerHour).replace(' a month', '')},
];

/** @param {ui.Context} context @returns {ui.View} */
export function costs({store}) {
  const stop = new AbortController();
  const note = h('p', {class: 'quiet'});
  /** @type {ReturnType<typeof table<api.CostShare>>} */
  const spaces = table({
    caption: 'Cost by namespace', key: (c) => c.namespace, sort: 'price', descending: true, empty: 'No pod runs.',
    columns: [{id: 'namespace', label: 'Namespace', value: (c) => c.namespace, cell: (c) => c.namespace}, ...amounts],
  });
  /** @type {ReturnType<typeof table<api.CostShare>>} */
  const works = table({
    caption: 'Cost by workload', key: (c) => `${c.namespace}/${c.kind}/${c.name}`, sort: 'price', descending: true, empty: 'No workload matches.',
    columns: [
      {id: 'name', label: 'Workload', value: (c) => c.name || '', cell: (c) => c.name},
      {id: 'kind', label: 'Kind', value: (c) => c.kind || '', cell: (c) => c.kind},
      {id: 'namespace', label: 'Namespace', value: (c) => c.namespace, cell: (c) => c.namespace},
      ...amounts,
    ],
  });
  /** @type {api.CostShare[]} */
  let all = [];
  const filter = h('input', {type: 'search', placeholder: 'Filter the workloads', 'aria-label': 'Filter the workloads', oninput: () => draw()});

  function draw() {
    const words = filter.value.trim().toLowerCase().split(/\s+/);
    works.update(all.filter((c) => words.every((w) => `${c.namespace} ${c.kind} ${c.name}`.toLowerCase().includes(w))));
  }

  async function load() {
    try {
      /** @type {api.CostList} */
      const got = await store.json('costs', stop.signal);
      all = got.workloads;
      spaces.update(got.namespaces);
      draw();
      fill(note, got.emptyNodesPerHour > 0 && `Nodes without pods cost ${hourly(got.emptyNodesPerHour)} besides.`);
    } catch (error) {
      if (!aborted(error)) fill(note, h('span', {class: 'trouble'}, messageOf(error)));
    }
  }

  load();
  const again = setInterval(load, 60000);
  return {
    title: 'Costs',
    element: h('div', {class: 'page'},
      h('div', {class: 'head'}, h('h1', {}, 'Costs'), h('p', {class: 'quiet'}, 'What pods cost: of each node the share that their requests have in all requests on it, the mean of CPU and memory.'), note),
      h('section', {class: 'card'}, h('h2', {}, 'By namespace'), spaces.element),
      h('div', {class: 'controls'}, filter),
      h('section', {class: 'card'}, h('h2', {}, 'By workload'), works.element)),
    close() {
      stop.abort();
      clearInterval(again);
    },
  };
}
