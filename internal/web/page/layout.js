// Where things go in the picture of the fleet. Pure: figures in, rectangles out.

import {share} from './format.js';

const HEADING = 24;
const GROUP_GAP = 10;
const POD = 4;

// HEADER is the height of the line of text in a box that is large enough for one.
export const HEADER = 17;
export const LABELLED = 84; // from this width on a box has a line of text

/** @param {ui.Node} node */
const size = (node) => Math.sqrt(Math.max(node.cpuMillicores.allocatable, 500) / 1000);

// shelves puts boxes of one group into rows, the largest first. A row is made of columns: where one has room below, smaller
// boxes go there.
/**
 * @param {ui.Group} group
 * @param {number} k pixels for the side of a node with one core
 * @param {{width: number, gap: number}} page
 * @param {number} top
 * @param {ui.Box[] | null} out
 */
function shelves(group, k, {width, gap}, top, out) {
  /** @returns {{y: number, h: number, x: number, columns: {x: number, w: number, y: number}[]}} */
  const begin = (/** @type {number} */ y) => ({y, h: 0, x: 1, columns: []});
  let row = begin(top);
  for (const node of group.nodes) {
    const side = Math.max(8, Math.round(k * size(node)));
    let column = row.columns.find((c) => c.w >= side && c.y + side <= row.y + row.h);
    if (!column) {
      if (row.columns.length > 0 && row.x + side + 1 > width) row = begin(row.y + row.h + gap);
      row.h = Math.max(row.h, side);
      column = {x: row.x, w: side, y: row.y};
      row.columns.push(column);
      row.x += side + gap;
    }
    if (out) out.push({node, x: column.x, y: column.y, w: side, h: side});
    column.y += side + gap;
  }
  return row.y + row.h;
}

/**
 * @param {ui.Group[]} groups
 * @param {number} k
 * @param {{width: number, gap: number}} page
 * @param {ui.Box[] | null} out
 */
function place(groups, k, page, out) {
  let y = 0;
  for (const group of groups) {
    if (out && group.name !== null) group.y = y;
    y = shelves(group, k, page, y + (group.name === null ? 0 : HEADING), out) + GROUP_GAP;
  }
  return y;
}

// boxes finds the largest scale at which all groups fit into a height, and puts every node into its place. Groups get their y.
/** @param {ui.Group[]} groups @param {{width: number, height: number, largest: number, smallest: number}} page */
export function boxes(groups, {width, height, largest, smallest}) {
  let most = 0;
  let least = Infinity;
  let count = 0;
  for (const g of groups) {
    for (const n of g.nodes) {
      count++;
      most = Math.max(most, size(n));
      least = Math.min(least, size(n));
    }
  }
  if (most === 0) return {boxes: [], height: 0};
  const page = {width, gap: count > 400 ? 2 : 4};
  let low = Math.min(smallest / least, Math.min(largest, width - 2) / most);
  let high = Math.min(largest, width - 2) / most;
  for (let i = 0; i < 14; i++) {
    const k = (low + high) / 2;
    if (place(groups, k, page, null) <= height) low = k;
    else high = k;
  }
  /** @type {ui.Box[]} */
  const out = [];
  return {height: place(groups, low, page, out), boxes: out};
}

// squarify fills a rectangle with areas in proportion to weights, which come largest first, each as square as can be.
/** @param {number[]} weights @param {ui.Rect} box @param {number[]} out */
function squarify(weights, box, out) {
  let {x, y, w, h} = box;
  let total = 0;
  for (const v of weights) total += v;
  if (total <= 0 || w <= 0 || h <= 0) return;
  const scale = w * h / total;
  for (let i = 0; i < weights.length;) {
    const side = Math.min(w, h);
    const start = i;
    let sum = 0;
    let worst = Infinity;
    for (; i < weights.length; i++) {
      const area = weights[i] * scale;
      const more = sum + area;
      const ratio = Math.max(side * side * weights[start] * scale / (more * more), more * more / (side * side * area));
      if (ratio > worst) break;
      worst = ratio;
      sum = more;
    }
    const thick = Math.min(sum / side, Math.max(w, h));
    let along = w >= h ? y : x;
    for (let j = start; j < i; j++) {
      const length = weights[j] * scale / thick;
      if (w >= h) out.push(x, along, thick, length);
      else out.push(along, y, length, thick);
      along += length;
    }
    if (w >= h) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      h -= thick;
    }
  }
}

/** @param {ui.Node} node */
const full = (node) => Math.min(1, Math.max(share(node.cpuMillicores), share(node.memoryBytes)));

/** @type {WeakMap<ui.Node, {w: number, h: number, order: number[], rects: number[]}>} */
const cache = new WeakMap();

// podsIn is where a node's pods are within its box: indexes of pods, and four figures for each. The filled part is as large as
// the part of the scarcer resource that is asked for; within it each pod has the area of its share.
/** @param {ui.Node} node @param {ui.Rect} box */
export function podsIn(node, box) {
  const have = cache.get(node);
  if (have && have.w === box.w && have.h === box.h) return have;
  /** @type {number[]} */
  const order = [];
  /** @type {number[]} */
  const shares = [];
  const cpu = node.cpuMillicores.allocatable;
  const memory = node.memoryBytes.allocatable;
  for (let i = 0; i < node.podRows.length; i += POD) {
    order.push(i);
    shares.push(Math.max(cpu > 0 ? node.podRows[i + 1] / cpu : 0, memory > 0 ? node.podRows[i + 2] / memory : 0, 0.0015));
  }
  order.sort((a, b) => shares[b / POD] - shares[a / POD] || (node.podRows[a] < node.podRows[b] ? -1 : 1));
  const head = box.w >= LABELLED ? HEADER : 0;
  const room = Math.max(0, box.h - 2 - head);
  const high = Math.max(order.length > 0 ? 2 : 0, room * full(node));
  /** @type {number[]} */
  const rects = [];
  squarify(order.map((i) => shares[i / POD]), {x: 1, y: 1 + head + room - high, w: box.w - 2, h: high}, rects);
  const made = {w: box.w, h: box.h, order, rects};
  cache.set(node, made);
  return made;
}

// spareIn is where the room that a node holds for buffers is within its box: four figures for each buffer. It is a band above the pods, as
// high as its share of the scarcer resource.
/** @param {ui.Node} node @param {ui.Rect} box */
export function spareIn(node, box) {
  /** @type {{spare: api.Spare, rect: number[]}[]} */
  const out = [];
  const list = node.spare || [];
  const head = box.w >= LABELLED ? HEADER : 0;
  const room = Math.max(0, box.h - 2 - head);
  const part = (/** @type {api.Spare} */ s) => Math.max(share({requested: s.cpuMillicores, allocatable: node.cpuMillicores.allocatable}), share({requested: s.memoryBytes, allocatable: node.memoryBytes.allocatable}), 0.0015);
  const all = list.reduce((sum, s) => sum + part(s), 0);
  const free = room - Math.max(node.podRows.length > 0 ? 2 : 0, room * full(node));
  const high = Math.min(free, Math.max(2, room * all));
  let x = 1;
  for (const spare of high > 0 ? list : []) {
    const w = (box.w - 2) * part(spare) / all;
    out.push({spare, rect: [x, 1 + head + free - high, w, high]});
    x += w;
  }
  return out;
}

// together adds up room that is held for buffers.
/** @param {api.Spare[]} [a] @param {api.Spare[]} [b] */
function together(a = [], b = []) {
  /** @type {Map<string, api.Spare>} */
  const sums = new Map();
  for (const s of [...a, ...b]) {
    const sum = sums.get(s.buffer) || {buffer: s.buffer, pods: 0, cpuMillicores: 0, memoryBytes: 0};
    sums.set(s.buffer, {buffer: s.buffer, pods: sum.pods + s.pods, cpuMillicores: sum.cpuMillicores + s.cpuMillicores, memoryBytes: sum.memoryBytes + s.memoryBytes});
  }
  return [...sums.values()];
}

// after is the fleet once everything that is decided has been done: nodes with a mark of what becomes of them.
/** @param {ui.Node[]} nodes @param {api.Next} next */
export function after(nodes, next) {
  /** @type {Map<string, ui.Node>} */
  const out = new Map();
  /** @type {Map<string, string>} */
  const keys = new Map(); // by the name of a node
  for (const node of nodes) {
    out.set(node.key, node);
    keys.set(node.node || node.claim || '', node.key);
  }
  /** @param {string} key @param {any[]} pods @param {api.Spare[]} [spare] */
  const give = (key, pods, spare = []) => {
    const node = out.get(key);
    if (!node || pods.length + spare.length === 0) return;
    const moved = new Set(node.moved);
    /** @type {ui.Node} */
    const grown = {...node, podRows: node.podRows.concat(pods), cpuMillicores: {...node.cpuMillicores}, memoryBytes: {...node.memoryBytes}, mark: node.mark || 'filled', moved, spare: together(node.spare, spare)};
    for (let i = 0; i < pods.length; i += POD) {
      moved.add(pods[i]);
      grown.cpuMillicores.requested += pods[i + 1];
      grown.memoryBytes.requested += pods[i + 2];
    }
    grown.count = grown.podRows.length / POD;
    out.set(key, grown);
  };
  let fresh = 0;
  /** @param {api.PlannedNode} n */
  const make = (n) => {
    const key = `new/${++fresh}`;
    out.set(key, {...n, key, state: 'planned', mark: 'new', podRows: [], count: 0, spare: []});
    give(key, n.podRows, n.spare);
  };
  for (const move of next.moves || []) {
    for (const name of move.remove) {
      const node = out.get(keys.get(name) || '');
      if (node) out.set(node.key, {...node, mark: 'removed', podRows: [], spare: [], count: 0, cpuMillicores: {...node.cpuMillicores, requested: 0}, memoryBytes: {...node.memoryBytes, requested: 0}});
    }
    for (const f of move.filled || []) give(f.key, f.podRows, f.spare);
    for (const n of move.add || []) make(n);
  }
  for (const f of next.filled || []) give(f.key, f.podRows);
  for (const n of next.add || []) make(n);
  return [...out.values()];
}
