// A node or a pod, with what explain says about it.

import {badge, fill, h} from './dom.js';
import {cores, memory, nodeLink, plural, shortName} from './format.js';
import {nodeFacts, podName} from './fleet.js';
import {Picture} from './picture.js';
import {about as decisionsAbout, answer, detail, facts} from './reasons.js';
import {aborted, messageOf} from './store.js';
import {table} from './table.js';

// explained asks about an object, and asks again when a decision was made about it or it has changed. shown names facts that the page
// has elsewhere, and then is handed what came.
/**
 * @param {ui.Store} store
 * @param {string} path
 * @param {string} about
 * @param {{shown?: string[], then?: (got: api.Explanation) => void}} [options]
 */
function explained(store, path, about, {shown, then} = {}) {
  const box = h('section', {class: 'card', 'aria-label': 'Explanation', 'aria-live': 'off'}, h('p', {class: 'quiet'}, 'Asking why…'));
  const stop = new AbortController();
  let waiting = 0;

  async function load() {
    try {
      /** @type {api.Explanation} */
      const got = await store.json(`explain/${path}`, stop.signal);
      fill(box, answer(got, store, shown));
      then?.(got);
    } catch (error) {
      if (!aborted(error)) await gone(messageOf(error));
    }
  }

  // gone shows what can be said about something that is not there.
  /** @param {string} text */
  async function gone(text) {
    const list = (await store.json(`decisions?limit=20&about=${encodeURIComponent(about)}`, stop.signal).catch(() => ({decisions: []}))).decisions;
    fill(box, h('p', {class: 'verdict'}, text), decisionsAbout(list, store));
  }

  load();
  return {
    element: box,
    // again asks once more, at most every five seconds: an explanation can cost as much as a decision.
    again() {
      if (waiting) return;
      waiting = setTimeout(() => {
        waiting = 0;
        load();
      }, 5000);
    },
    close() {
      stop.abort();
      clearTimeout(waiting);
    },
  };
}

/** @param {ui.Context} context @returns {ui.View} */
export function nodePage({store, args}) {
  const key = args.join('/');
  const find = () => store.nodes.get(key) || [...store.nodes.values()].find((n) => n.node === key || `node/${n.node}` === key);
  let node = find();
  const name = key.replace(/^node\//, '');
  const title = h('h1', {}, node ? shortName(node) : name);
  const full = h('p', {class: 'quiet'});
  const side = h('div', {});
  const objects = h('div', {});
  let instance = '';
  const canvas = h('canvas', {role: 'img', 'aria-label': 'The node, filled by its pods'});
  const picture = new Picture(canvas, {single: true, height: 220});
  const frame = h('div', {class: 'frame'}, canvas);
  /** @type {ReturnType<typeof table<ui.Pod>>} */
  const pods = table({
    caption: 'Pods on this node', key: (p) => p.name, sort: 'cpu', descending: true, empty: 'No pod runs here.',
    columns: [
      {id: 'name', label: 'Pod', value: (p) => p.name, cell: (p) => podName(p)},
      {id: 'cpu', label: 'CPU requested', numeric: true, value: (p) => p.cpu, cell: (p) => cores(p.cpu)},
      {id: 'memory', label: 'Memory requested', numeric: true, value: (p) => p.memory, cell: (p) => memory(p.memory)},
    ],
  });
  const heading = h('h2', {});
  const why = explained(store, node && node.node ? `node/${encodeURIComponent(node.node)}` : `nodeclaim/${encodeURIComponent(name)}`, node && node.node ? `Node/${node.node}` : `NodeClaim/${name}`, {
    shown: ['type', 'pool', 'claim', 'age', 'pods', 'cpu', 'memory', 'instance', 'node'],
    then: (got) => {
      instance = got.node?.instanceID || '';
      fill(objects, got.node ? detail(got.node) : null);
      draw();
    },
  });

  function draw() {
    node = find();
    frame.hidden = !node || (node.podRows.length === 0 && (node.spare || []).length === 0);
    if (!node) {
      fill(full, 'This node is not there: it was deleted, or never existed.');
      fill(side);
      fill(objects);
      fill(heading);
      pods.update([]);
      return;
    }
    fill(title, shortName(node));
    fill(full, node.node && node.node !== shortName(node) ? node.node : '');
    fill(side, nodeFacts(node, store, [['Instance', instance]]));
    fill(heading, plural(node.count, 'pod'));
    picture.set([node], {color: 'capacityType'});
    pods.update(store.podsOf(node));
  }

  const resized = new ResizeObserver(() => { picture.stale = true; picture.request(); });
  resized.observe(frame);
  draw();
  let seen = node;
  return {
    title: node ? shortName(node) : name,
    element: h('div', {class: 'page'},
      h('div', {class: 'head'}, h('p', {}, h('a', {href: '#/fleet'}, 'Fleet'), node && node.pool ? [' / ', h('a', {href: '#/pools'}, node.pool)] : null), title, full),
      h('div', {class: 'columns'}, h('section', {class: 'card side', 'aria-label': 'Facts'}, side, objects), h('div', {class: 'grow'}, why.element)),
      h('section', {class: 'card'}, heading, frame, pods.element)),
    update(change) {
      if (!change.nodes) return;
      draw();
      if (node !== seen) why.again();
      seen = node;
    },
    decision(e) {
      const names = [...(e.about || []).map((r) => r.name), ...(e.remove || []).map((r) => r.claim)];
      if (names.some((x) => x && (x === node?.node || x === node?.claim))) why.again();
    },
    theme() {
      picture.theme();
      draw();
    },
    close() {
      why.close();
      resized.disconnect();
    },
  };
}

/** @param {ui.Context} context @returns {ui.View} */
export function podPage({store, args}) {
  const [space, name] = args;
  const full = `${space}/${name}`;
  const why = explained(store, `pod/${encodeURIComponent(name)}?namespace=${encodeURIComponent(space)}`, `Pod/${full}`, {shown: ['requests']});
  const side = h('div', {});
  let seen = '';

  function draw() {
    const node = store.nodeOfPod(full);
    const wait = store.pending.find((g) => g.pods.includes(full));
    const pod = node && store.podsOf(node).find((p) => p.name === full);
    fill(side, facts([
      ['State', node ? badge('placed', 'good') : wait ? badge('pending', 'warn') : badge('not known', 'neutral')],
      ['Namespace', space],
      ['Node', node && h('a', {href: nodeLink(node.key)}, shortName(node))],
      ['Node type', node && [node.instanceType, node.zone, node.capacityType].filter(Boolean).join(' · ')],
      ['CPU requested', (pod || wait) && cores(pod?.cpu ?? wait?.cpuMillicores ?? 0)], ['Memory requested', (pod || wait) && memory(pod?.memory ?? wait?.memoryBytes ?? 0)],
    ]));
    const state = `${node && node.key} ${wait && wait.summary}`;
    if (seen && seen !== state) why.again();
    seen = state;
  }

  draw();
  return {
    title: name,
    element: h('div', {class: 'page'},
      h('div', {class: 'head'}, h('p', {class: 'quiet'}, `Pod in ${space}`), h('h1', {}, name)),
      h('div', {class: 'columns'}, h('section', {class: 'card side', 'aria-label': 'Facts'}, side), h('div', {class: 'grow'}, why.element))),
    update: (change) => { if (change.nodes || change.pending) draw(); },
    close: why.close,
  };
}
