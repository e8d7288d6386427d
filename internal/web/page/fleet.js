// The fleet: as a picture and as a table, now and after what has been decided.

import {age, badge, bar, choice, fill, h, say, text} from './dom.js';
import {cores, count, hourly, memory, nodeLink, percent, plural, podLink, seconds, share, shortName, splitPod} from './format.js';
import {after} from './layout.js';
import {Picture, used} from './picture.js';
import {facts} from './reasons.js';
import {DAEMON, FIXED, TERMINATING} from './store.js';
import {table} from './table.js';

/** @type {Record<string, [number, number]>} */
const arrows = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

// columns of the table of nodes
/** @param {ui.Store} store @returns {ui.Column<ui.Node>[]} */
function nodeColumns(store) {
  return [
    {id: 'name', label: 'Node', value: (n) => shortName(n), cell: (n) => (n.mark === 'new' ? 'a new node' : h('a', {href: nodeLink(n.key)}, shortName(n)))},
    {id: 'state', label: 'State', value: (n) => n.mark || n.state, cell: (n) => [badge(n.mark || n.state), (n.notes || []).map((x) => badge(x, 'neutral'))]},
    {id: 'pool', label: 'Pool', value: (n) => n.pool || '', cell: (n) => n.pool || '–'},
    {id: 'type', label: 'Type', value: (n) => n.instanceType || '', cell: (n) => n.instanceType || '–'},
    {id: 'zone', label: 'Zone', value: (n) => n.zone || '', cell: (n) => n.zone || '–'},
    {id: 'capacity-type', label: 'Capacity type', value: (n) => n.capacityType || '', cell: (n) => n.capacityType || '–'},
    {id: 'price', label: 'Price', numeric: true, value: (n) => n.pricePerHour || 0, cell: (n) => (n.pricePerHour ? hourly(n.pricePerHour) : 'unknown')},
    {id: 'cpu', label: 'CPU requested', value: (n) => share(n.cpuMillicores), cell: (n) => useBar(n.cpuMillicores, cores)},
    {id: 'memory', label: 'Memory requested', value: (n) => share(n.memoryBytes), cell: (n) => useBar(n.memoryBytes, memory)},
    {id: 'pods', label: 'Pods', numeric: true, value: (n) => n.count, cell: (n) => count(n.count)},
    {id: 'spare', label: 'Spare pods', numeric: true, value: (n) => spares(n), cell: (n) => (spares(n) > 0 ? count(spares(n)) : '–')},
    {id: 'age', label: 'Age', numeric: true, value: (n) => -seconds(n.created), cell: (n) => (n.created ? age(n.created, store) : '–')},
  ];
}

/** @param {api.Amount} amount @param {(amount: number) => string} write */
function useBar(amount, write) {
  const p = share(amount);
  return h('span', {class: 'use'}, bar(p, `${percent(p)} requested`), h('span', {class: 'use-text'}, percent(p)), h('span', {class: 'quiet use-of'}, `${write(amount.requested)} of ${write(amount.allocatable)}`));
}

/** @param {ui.Context} context @returns {ui.View} */
export function fleet({store, query}) {
  /** @type {Record<string, string>} */
  const state = {
    color: query.get('color') || 'capacityType', group: query.get('group') || 'pool',
    when: query.get('when') || 'now', as: query.get('as') || 'picture', words: '',
  };
  const canvas = h('canvas', {
    tabindex: '0', role: 'application', 'aria-roledescription': 'picture of the fleet', 'aria-describedby': 'picture-help',
    'aria-label': 'The fleet. Arrow keys go from node to node, Enter opens one.',
  });
  const picture = new Picture(canvas);
  const tip = h('div', {class: 'tip', hidden: true});
  const panel = h('aside', {class: 'panel card', 'aria-label': 'Chosen node', hidden: true});
  const legend = h('ul', {class: 'legend', 'aria-label': 'Colours'});
  const summary = h('p', {class: 'fleet-summary', role: 'status'});
  const none = h('p', {class: 'quiet', hidden: true});
  const frame = h('div', {class: 'frame'}, none, canvas, tip);
  const nodes = table({caption: 'Nodes', columns: nodeColumns(store), key: (n) => n.key, sort: 'price', descending: true, empty: 'No node matches.'});
  /** @type {HTMLInputElement} */
  const words = h('input', {type: 'search', placeholder: 'Filter by name, pool, type, zone', 'aria-label': 'Filter the nodes', oninput: () => { state.words = words.value.trim().toLowerCase(); draw(); }});
  const body = h('div', {class: 'fleet-body'}, frame, nodes.element, panel);

  const remember = () => {
    const q = new URLSearchParams();
    for (const [k, usual] of [['color', 'capacityType'], ['group', 'pool'], ['when', 'now'], ['as', 'picture']]) if (state[k] !== usual) q.set(k, state[k]);
    history.replaceState(null, '', `#/fleet${q.size > 0 ? `?${q}` : ''}`);
    draw();
  };
  const set = (/** @type {string} */ k) => (/** @type {string} */ v) => { state[k] = v; remember(); };

  function list() {
    let all = [...store.nodes.values()];
    if (state.when === 'after') all = after(all, store.next);
    if (!state.words) return all;
    return all.filter((n) => [n.node, n.claim, n.pool, n.instanceType, n.zone, n.capacityType, n.state].some((x) => (x || '').toLowerCase().includes(state.words)));
  }

  function draw() {
    const shown = list();
    const asTable = state.as === 'table';
    frame.hidden = asTable;
    nodes.element.hidden = !asTable;
    legend.hidden = asTable || shown.length === 0;
    for (const c of pictureOnly) c.hidden = asTable;
    none.hidden = shown.length > 0;
    canvas.hidden = shown.length === 0;
    text(none, store.nodes.size === 0 ? 'The cluster has no node yet.' : 'No node matches.');
    if (asTable) nodes.update(shown);
    else {
      picture.set(shown, {color: state.color, group: state.group});
      requestAnimationFrame(() => fill(legend, [...picture.legend(), ...frames(shown)].map(([name, c]) => h('li', {}, h('span', {class: 'swatch', data: {c}}), name))));
    }
    fill(summary, ...(state.when === 'after' ? changes() : now(shown)));
    if (!panel.hidden) choose(picture.selected, false);
  }

  /** @param {ui.Node[]} shown */
  function now(shown) {
    const t = store.totals;
    return [`${plural(shown.length, 'node')}, ${plural(t.podSlots.requested, 'pod')}, ${hourly(t.pricePerHour)}. `, planned() === 0 ? 'Nothing is about to change.' : `${plural(planned(), 'change')} decided and not done yet: see "After".`];
  }

  // frames are the lines of the legend for what only some nodes or pods have.
  /** @param {ui.Node[]} shown @returns {string[][]} */
  function frames(shown) {
    const some = (/** @type {(n: ui.Node) => unknown} */ f) => shown.some(f);
    return [
      [some((n) => n.daemons) ? 'paler: daemons' : '', 'daemon'],
      [some((n) => n.moved) ? 'pods that move' : '', 'moved'],
      [some((n) => spares(n)) ? 'room kept for buffers' : '', 'spare'],
      [some((n) => n.mark === 'new') ? 'new' : '', 'new'],
      [some((n) => n.mark === 'removed' || (!n.mark && n.state === 'deleting')) ? 'deleting' : '', 'deleting'],
      [some((n) => !n.mark && n.state === 'not ready') ? 'not ready' : '', 'not-ready'],
      [some((n) => !n.mark && ['launching', 'joining', 'starting'].includes(n.state)) ? 'starting' : '', 'starting'],
    ].flatMap(([name, c]) => (name ? [[name, c]] : []));
  }

  const planned = () => (store.next.moves || []).length + (store.next.add || []).length;

  /** @returns {ui.Child[]} */
  function changes() {
    const {moves = [], add = []} = store.next;
    if (planned() === 0) return ['Nothing is decided that has not been done: after is as now.'];
    const gone = moves.reduce((n, m) => n + m.remove.length, 0);
    const come = add.length + moves.reduce((n, m) => n + (m.add || []).length, 0);
    const saves = moves.reduce((sum, m) => sum + m.savesPerHour, 0) - add.reduce((sum, n) => sum + (n.pricePerHour || 0), 0);
    const evicts = moves.reduce((n, m) => n + m.evicts, 0);
    return [`${plural(gone, 'node is removed', 'nodes are removed')}, ${plural(come, 'node is launched', 'nodes are launched')}, ${plural(evicts, 'pod restarts', 'pods restart')}. `,
      `${hourly(store.totals.pricePerHour)} becomes `, h('strong', {}, hourly(store.totals.pricePerHour - saves)), ` (${saves >= 0 ? 'saves' : 'costs'} `, h('strong', {class: saves >= 0 ? 'gain' : 'loss'}, hourly(Math.abs(saves))), ').'];
  }

  // choose shows a node at the side.
  /** @param {string} key @param {boolean} tell */
  function choose(key, tell) {
    const n = picture.select(key);
    panel.hidden = !n;
    if (!n) return;
    fill(panel, h('div', {class: 'panel-head'}, h('h2', {}, n.mark === 'new' ? 'A new node' : shortName(n)), h('button', {type: 'button', class: 'plain', 'aria-label': 'Close', onclick: () => { choose('', false); canvas.focus(); }}, '✕')),
      nodeFacts(n, store),
      n.mark !== 'new' && h('p', {}, h('a', {class: 'button', href: nodeLink(n.key)}, 'Open: why it is here, and what would change that')),
      h('h3', {}, plural(n.count || 0, 'pod')),
      h('ul', {class: 'plain-list'}, store.podsOf(n).sort((a, b) => b.cpu - a.cpu).slice(0, 60).map((p) => h('li', {}, podName(p, n), h('span', {class: 'quiet num'}, `${cores(p.cpu)} · ${memory(p.memory)}`)))));
    if (tell) say(describe(n));
  }

  canvas.addEventListener('pointermove', (event) => {
    const r = canvas.getBoundingClientRect();
    const hit = picture.at(event.clientX - r.left, event.clientY - r.top);
    picture.point(hit);
    tip.hidden = !hit;
    if (!hit) return;
    fill(tip, tipText(hit));
    const x = Math.min(event.clientX - r.left + 14, r.width - 260);
    tip.style.transform = `translate(${Math.max(0, x)}px, ${event.clientY - r.top + 16}px)`;
  });
  canvas.addEventListener('pointerleave', () => {
    picture.point(null);
    tip.hidden = true;
  });
  canvas.addEventListener('click', (event) => {
    const r = canvas.getBoundingClientRect();
    const hit = picture.at(event.clientX - r.left, event.clientY - r.top);
    choose(hit ? hit.box.node.key : '', true);
  });
  canvas.addEventListener('dblclick', () => open());
  canvas.addEventListener('keydown', (event) => {
    const step = arrows[event.key];
    if (step) {
      event.preventDefault();
      const b = picture.neighbour(...step);
      if (b) choose(b.node.key, true);
    } else if (event.key === 'Enter') open();
    else if (event.key === 'Escape') choose('', false);
  });
  const open = () => { if (store.nodes.has(picture.selected)) location.hash = nodeLink(picture.selected); };
  const resized = new ResizeObserver(() => { picture.stale = true; picture.request(); });
  resized.observe(frame);

  const pictureOnly = [
    choice('Colour', [['capacityType', 'Capacity type'], ['pool', 'Pool'], ['use', 'Requests']], state.color, set('color')),
    choice('Group', [['pool', 'Pool'], ['zone', 'Zone'], ['instanceType', 'Type'], ['none', 'None']], state.group, set('group')),
  ];
  const element = h('div', {class: 'page'},
    h('div', {class: 'head row'}, h('h1', {}, 'Fleet'), summary),
    h('div', {class: 'controls'},
      choice('Show', [['picture', 'Picture'], ['table', 'Table']], state.as, set('as')),
      choice('When', [['now', 'Now'], ['after', 'After']], state.when, set('when')),
      pictureOnly, words),
    h('p', {class: 'hidden', id: 'picture-help'}, 'Each node is a box as large as its capacity, filled by its pods. The table shows the same in text.'),
    legend, body);
  draw();
  return {
    title: 'Fleet',
    element,
    update: (change) => { if (change.nodes || change.next || change.totals) draw(); },
    theme: () => { picture.theme(); draw(); },
    close: () => resized.disconnect(),
  };
}

// nodeFacts is what there is to know of a node at a glance.
/** @param {ui.Node} n @param {ui.Store} store @param {[string, ui.Child][]} [more] */
export function nodeFacts(n, store, more = []) {
  return facts([
    ['State', [badge(n.mark || n.state), (n.notes || []).map((x) => badge(x, 'neutral'))]],
    ['Pool', n.pool], ['Type', n.instanceType], ['Zone', n.zone], ['Capacity type', n.capacityType], ['Price', n.pricePerHour ? hourly(n.pricePerHour) : 'unknown'],
    ['Age', n.created ? age(n.created, store) : ''],
    ['CPU requested', useBar(n.cpuMillicores, cores)], ['Memory requested', useBar(n.memoryBytes, memory)],
    ['Keeps room for', (n.spare || []).length > 0 && h('ul', {}, (n.spare || []).map((s) => h('li', {}, spareWords(s))))],
    ...(n.other || []).map((o) => /** @type {[string, ui.Child]} */ ([o.name.replace(/^.*\//, ''), useBar(o, count)])),
    ['Claim', n.claim], ...more,
  ]);
}

/** @param {ui.Pod} p @param {ui.Node} [n] */
export function podName(p, n) {
  const [space, name] = splitPod(p.name);
  return h('span', {class: 'pod-name'}, h('a', {href: podLink(p.name)}, name), h('span', {class: 'quiet'}, ` ${space}`),
    n && n.moved && n.moved.has(p.name) && badge('moves here', 'good'),
    p.flags & DAEMON ? badge('daemon', 'neutral') : null, p.flags & FIXED ? badge('cannot move', 'neutral') : null, p.flags & TERMINATING ? badge('ending', 'neutral') : null);
}

/** @param {ui.Node} n */
function describe(n) {
  return `${n.mark === 'new' ? 'A new node' : shortName(n)}, ${n.instanceType || 'unknown type'}, ${n.zone || ''}, ${n.capacityType || ''}, ${n.pricePerHour ? hourly(n.pricePerHour) : ''}, ${n.mark || n.state}, ${percent(used(n))} requested, ${plural(n.count || 0, 'pod')}`;
}

// spares counts the spare pods that a node holds room for.
/** @param {ui.Node} n */
const spares = (n) => (n.spare || []).reduce((sum, s) => sum + s.pods, 0);

/** @param {api.Spare} s */
const spareWords = (s) => `${plural(s.pods, 'spare pod')} of buffer ${s.buffer}`;

/** @param {ui.Hit} hit @returns {ui.Child} */
function tipText({box, pod, spare}) {
  const n = box.node;
  const node = [h('strong', {}, n.mark === 'new' ? 'A new node' : shortName(n)), h('br'), [n.instanceType, n.zone, n.capacityType].filter(Boolean).join(' · '), h('br'),
    `${n.pricePerHour ? hourly(n.pricePerHour) : 'price unknown'} · ${n.mark || n.state}`, h('br'), `${percent(share(n.cpuMillicores))} of CPU and ${percent(share(n.memoryBytes))} of memory requested · ${plural(n.count || 0, 'pod')}`];
  if (spare) return [h('strong', {}, spareWords(spare)), h('br'), `${cores(spare.cpuMillicores)} CPU · ${memory(spare.memoryBytes)} kept free`, h('hr'), ...node];
  if (!pod) return node;
  return [h('strong', {}, splitPod(pod.name)[1]), h('br'), `${splitPod(pod.name)[0]} · ${cores(pod.cpu)} CPU · ${memory(pod.memory)}`, h('hr'), ...node];
}
