// The fleet as a picture, on a canvas: a thousand nodes and twenty thousand pods are too many elements for a document. What has
// not changed is not drawn again: a pod that comes costs one box, not a thousand.

import {boxes, podsIn, spareIn, HEADER, LABELLED} from './layout.js';
import {hourly, plural, seconds, share, shortName, splitPod} from './format.js';
import {DAEMON, FIXED} from './store.js';

const PALETTE = 10;
const LOW = [0.2, 0.4, 0.6, 0.8]; // where the colours of utilisation change

/** @param {ui.Node} n */
export const used = (n) => Math.max(share(n.cpuMillicores), share(n.memoryBytes));

// names of colours, as in the style sheet
const colours = ['spot', 'on-demand', 'reserved', 'other', 'track', 'box', 'ink', 'quiet', 'on-fill', 'bad', 'good', 'accent', 'surface', 'moved', 'spare',
  ...Array.from(Array(PALETTE).keys(), (i) => `p${i}`), ...Array.from(Array(LOW.length + 1).keys(), (i) => `u${i}`)];

export class Picture {
  // single draws one node over the whole width.
  /** @param {HTMLCanvasElement} canvas @param {{single?: boolean, height?: number}} [options] */
  constructor(canvas, {single = false, height = 0} = {}) {
    this.canvas = canvas;
    this.single = single;
    this.height = height;
    /** @type {ui.Box[]} */
    this.boxes = [];
    /** @type {Map<string, ui.Box>} */
    this.index = new Map(); // of boxes, by the key of the node
    /** @type {ui.Group[]} */
    this.groups = [];
    /** @type {ui.Node[]} */
    this.nodes = [];
    /** @type {string[]} */
    this.pools = [];
    /** @type {ui.PictureOptions} */
    this.options = {color: 'capacityType', group: 'pool'};
    this.selected = '';
    /** @type {ui.Hit | null} */
    this.hover = null;
    this.stale = true; // boxes are to be put into their places
    this.whole = true; // everything is to be drawn, or else only these:
    /** @type {Set<ui.Box>} */
    this.dirty = new Set();
    this.ratio = 1;
    this.font = '';
    /** @type {Record<string, string>} */
    this.colour = {};
    this.waiting = false;
    this.theme();
  }

  theme() {
    this.whole = true;
    const style = getComputedStyle(document.documentElement);
    this.colour = Object.fromEntries(colours.map((c) => [c, style.getPropertyValue(`--${c}`).trim()]));
    this.font = getComputedStyle(document.body).fontFamily;
  }

  /** @param {ui.Node[]} nodes @param {Partial<ui.PictureOptions>} options */
  set(nodes, options) {
    const {color, group} = {...this.options, ...options};
    const same = !this.stale && nodes.length === this.nodes.length && color === this.options.color && group === this.options.group
      && nodes.every((n, i) => n === this.nodes[i] || this.fits(n, this.nodes[i]));
    if (same) {
      for (const [i, n] of nodes.entries()) if (n !== this.nodes[i]) this.swap(n);
    } else this.stale = true;
    this.nodes = nodes;
    this.options = {color, group};
    this.request();
  }

  // fits says whether a node takes the place of an earlier one with nothing moving around it, and nothing else said in headings.
  /** @param {ui.Node} a @param {ui.Node} b */
  fits(a, b) {
    return a.cpuMillicores.allocatable === b.cpuMillicores.allocatable && a.key === b.key && a.created === b.created && a.pool === b.pool
      && a.pricePerHour === b.pricePerHour && a.mark === b.mark && a.capacityType === b.capacityType && this.groupOf(a) === this.groupOf(b);
  }

  // groupOf names the group of a node; without groups there is one, without a name.
  /** @param {ui.Node} node */
  groupOf(node) {
    const {group} = this.options;
    if (group === 'none') return null;
    if (group === 'pool') return node.pool || 'no pool';
    return (group === 'zone' ? node.zone : node.instanceType) || 'unknown';
  }

  /** @param {ui.Node} node */
  swap(node) {
    const box = this.index.get(node.key);
    if (!box) return;
    box.node = node;
    this.dirty.add(box);
    if (this.hover?.box === box) this.hover = {box}; // its pods may be elsewhere
  }

  // point marks what the pointer is at.
  /** @param {ui.Hit | null} hit */
  point(hit) {
    for (const h of [this.hover, hit]) if (h) this.dirty.add(h.box);
    this.hover = hit;
    this.request();
  }

  // select marks the node of a key, and returns it if there is one.
  /** @param {string} key */
  select(key) {
    const node = this.nodes.find((n) => n.key === key);
    for (const k of [this.selected, key]) {
      const box = this.index.get(k);
      if (box) this.dirty.add(box);
    }
    this.selected = node ? key : '';
    this.request();
    return node;
  }

  // request draws with the next frame, however often it is called before.
  request() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  arrange() {
    this.stale = false;
    this.whole = true;
    this.place();
    this.index = new Map(this.boxes.map((b) => [b.node.key, b]));
    this.hover = null; // what was there may be elsewhere
  }

  place() {
    const frame = this.canvas.parentElement;
    if (!frame) return;
    const width = frame.clientWidth;
    if (this.single) {
      this.boxes = this.nodes.map((node) => ({node, x: 0, y: 0, w: width, h: this.height}));
      this.size(width, this.height);
      return;
    }
    /** @type {Map<string | null, ui.Node[]>} */
    const groups = new Map();
    const sorted = [...this.nodes].sort((a, b) => b.cpuMillicores.allocatable - a.cpuMillicores.allocatable || seconds(a.created) - seconds(b.created) || (a.key < b.key ? -1 : 1));
    for (const node of sorted) {
      const name = this.groupOf(node);
      const group = groups.get(name);
      if (group) group.push(node);
      else groups.set(name, [node]);
    }
    this.groups = Array.from(groups, ([name, nodes]) => ({name, nodes})).sort((a, b) => b.nodes.length - a.nodes.length || ((a.name || '') < (b.name || '') ? -1 : 1));
    const top = frame.getBoundingClientRect().top + scrollY;
    const laid = boxes(this.groups, {width, height: Math.max(360, innerHeight - top - 48), largest: 250, smallest: 9});
    this.boxes = laid.boxes;
    this.size(width, Math.max(60, laid.height));
    this.pools = [...new Set(this.nodes.map((n) => n.pool || ''))].sort();
  }

  /** @param {number} width @param {number} height */
  size(width, height) {
    const ratio = devicePixelRatio || 1;
    const w = Math.round(width * ratio);
    const h = Math.round(height * ratio);
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.ratio = ratio;
  }

  /** @param {ui.Node} node */
  fillOf(node) {
    if (this.options.color === 'pool') return this.colour[`p${Math.max(0, this.pools.indexOf(node.pool || '')) % PALETTE}`];
    if (this.options.color === 'use') return this.colour[`u${LOW.filter((x) => used(node) >= x).length}`];
    return this.colour[node.capacityType || 'other'] || this.colour.other;
  }

  /** @returns {string[][]} names and colours */
  legend() {
    if (this.options.color === 'pool') return this.pools.map((p, i) => [p || 'no pool', `p${i % PALETTE}`]);
    if (this.options.color === 'use') return ['below 20%', '20%', '40%', '60%', '80% and more'].map((t, i) => [t, `u${i}`]);
    const have = new Set(this.nodes.map((n) => n.capacityType || ''));
    return [['spot', 'spot'], ['on-demand', 'on-demand'], ['reserved', 'reserved'], ['unknown', 'other']].filter(([m]) => have.has(m) || (m === 'unknown' && have.has('')));
  }

  draw() {
    if (!this.canvas.isConnected) return;
    if (this.stale) this.arrange();
    const c = this.canvas.getContext('2d', {alpha: false});
    if (!c) return;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.textBaseline = 'middle';
    if (this.whole) this.clear(c, 0, 0, this.canvas.width, this.canvas.height);
    if (this.whole) for (const g of this.groups) if (g.name !== null) this.heading(c, g.name, g);
    const chosen = this.index.get(this.selected);
    for (const box of [chosen, this.hover?.box]) if (box) this.dirty.add(box); // their frames are drawn anew too
    for (const box of this.whole ? this.boxes : this.dirty) {
      if (!this.whole) this.clear(c, box.x - 1, box.y - 1, box.w + 2, box.h + 2); // frames are as wide
      this.box(c, box);
    }
    this.whole = false;
    this.dirty.clear();
    if (chosen) this.outline(c, chosen, this.colour.accent, 3);
    if (this.hover) this.outline(c, this.hover.box, this.colour.ink, 1.5);
    if (this.hover && this.hover.rect) {
      const [x, y, w, h] = this.hover.rect;
      c.lineWidth = 1.5;
      c.strokeStyle = this.colour.ink;
      c.strokeRect(this.hover.box.x + x, this.hover.box.y + y, w, h);
    }
    this.canvas.dataset.drawn = String((Number(this.canvas.dataset.drawn) || 0) + 1);
    this.canvas.dataset.boxes = String(this.boxes.length);
  }

  /** @param {CanvasRenderingContext2D} c @param {number} x @param {number} y @param {number} width @param {number} height */
  clear(c, x, y, width, height) {
    c.fillStyle = this.colour.surface;
    c.fillRect(x, y, width, height);
  }

  /** @param {CanvasRenderingContext2D} c @param {string} name @param {ui.Group} g */
  heading(c, name, g) {
    const y = (g.y || 0) + 10;
    c.font = `600 12.5px ${this.font}`;
    c.fillStyle = this.colour.ink;
    c.fillText(name, 1, y);
    const x = 1 + c.measureText(name).width + 8;
    c.font = `12px ${this.font}`;
    c.fillStyle = this.colour.quiet;
    c.fillText(`${plural(g.nodes.length, 'node')} · ${this.cost(g)}`, x, y);
  }

  /** @param {ui.Group} g */
  cost(g) {
    const sum = g.nodes.reduce((all, n) => all + (n.mark === 'removed' ? 0 : n.pricePerHour || 0), 0);
    return sum > 0 ? hourly(sum) : 'price unknown';
  }

  /** @param {CanvasRenderingContext2D} c @param {ui.Rect} b @param {string} colour @param {number} width @param {number[]} [dash] */
  outline(c, b, colour, width, dash = []) {
    c.lineWidth = width;
    c.strokeStyle = colour;
    c.setLineDash(dash);
    c.strokeRect(b.x + width / 2 - 1, b.y + width / 2 - 1, b.w - width + 2, b.h - width + 2);
    c.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} c @param {ui.Box} b */
  box(c, b) {
    const {node} = b;
    const gone = node.mark === 'removed';
    c.globalAlpha = gone ? 0.35 : 1;
    c.fillStyle = this.colour.track;
    c.fillRect(b.x, b.y, b.w, b.h);
    if (!gone) this.pods(c, b);
    if (b.w >= LABELLED && !this.single) this.label(c, b);
    c.globalAlpha = 1;
    if (gone) this.outline(c, b, this.colour.bad, 1.5, [3, 3]);
    else if (node.mark === 'new') this.outline(c, b, this.colour.good, 2);
    else if (node.state === 'deleting') this.outline(c, b, this.colour.bad, 1.5, [4, 3]);
    else if (node.state === 'not ready') this.outline(c, b, this.colour.bad, 2);
    else if (node.state !== 'ready') this.outline(c, b, this.colour.accent, 1.5, [3, 2]);
    else if (b.w >= 20) this.outline(c, b, this.colour.box, 1);
  }

  /** @param {CanvasRenderingContext2D} c @param {ui.Box} b */
  pods(c, b) {
    const {node} = b;
    const {order, rects} = podsIn(node, b);
    const base = this.fillOf(node);
    const leaving = node.state === 'deleting';
    for (const pass of [0, DAEMON]) {
      c.fillStyle = base;
      c.globalAlpha = (pass ? 0.5 : 1) * (leaving ? 0.45 : 1);
      for (let i = 0; i < order.length; i++) {
        const flags = node.podRows[order[i] + 3];
        if ((flags & DAEMON) !== pass) continue;
        const moved = node.moved && node.moved.has(node.podRows[order[i]]);
        if (moved) c.fillStyle = this.colour.moved;
        const w = rects[4 * i + 2];
        const h = rects[4 * i + 3];
        const gap = Math.min(w, h) >= 3 ? 1 : Math.min(w, h) >= 1.6 ? 0.5 : 0;
        c.fillRect(b.x + rects[4 * i], b.y + rects[4 * i + 1], w - gap, h - gap);
        if (moved) c.fillStyle = base;
      }
    }
    c.globalAlpha = 1;
    if (b.w >= LABELLED) this.podNames(c, b, order, rects);
    this.spare(c, b);
  }

  // spare draws the room that is held for buffers: hatched, so that it is not taken for pods by those who see no colours either.
  /** @param {CanvasRenderingContext2D} c @param {ui.Box} b */
  spare(c, b) {
    for (const {spare, rect: [x, y, w, h]} of spareIn(b.node, b)) {
      c.save();
      c.beginPath();
      c.rect(b.x + x, b.y + y, w, h);
      c.clip();
      c.strokeStyle = this.colour.spare;
      c.lineWidth = 1.5;
      c.beginPath();
      for (let d = -h; d < w; d += 5) {
        c.moveTo(b.x + x + d, b.y + y + h);
        c.lineTo(b.x + x + d + h, b.y + y);
      }
      c.stroke();
      c.strokeRect(b.x + x, b.y + y, w, h);
      if (b.w >= LABELLED && h >= 15 && w >= 42) {
        const words = plural(spare.pods, 'spare pod');
        c.font = `11px ${this.font}`;
        c.fillStyle = this.colour.track;
        c.fillRect(b.x + x + 2, b.y + y + 2, Math.min(w - 4, c.measureText(words).width + 6), 13);
        c.fillStyle = this.colour.ink;
        this.clipped(c, words, [b.x + x + 4, b.y + y + Math.min(h / 2, 9), w - 8]);
      }
      c.restore();
    }
  }

  /** @param {CanvasRenderingContext2D} c @param {ui.Box} b @param {number[]} order @param {number[]} rects */
  podNames(c, b, order, rects) {
    c.font = `11px ${this.font}`;
    for (let i = 0; i < order.length; i++) {
      const [x, y, w, h] = rects.slice(4 * i, 4 * i + 4);
      if (w < 42 || h < 15) continue;
      const flags = b.node.podRows[order[i] + 3];
      c.fillStyle = flags & DAEMON ? this.colour.ink : this.colour['on-fill'];
      this.clipped(c, splitPod(b.node.podRows[order[i]])[1] + (flags & FIXED ? ' ▪' : ''), [b.x + x + 4, b.y + y + Math.min(h / 2, 9), w - 8]);
    }
  }

  /** @param {CanvasRenderingContext2D} c @param {ui.Box} b */
  label(c, b) {
    c.font = `600 11px ${this.font}`;
    c.fillStyle = this.colour.ink;
    const price = b.node.pricePerHour ? hourly(b.node.pricePerHour) : '';
    const room = b.w >= 150 ? c.measureText(price).width + 10 : 0;
    this.clipped(c, b.node.instanceType || shortName(b.node), [b.x + 5, b.y + 1 + HEADER / 2, b.w - 10 - room]);
    if (room > 0) {
      c.font = `11px ${this.font}`;
      c.fillStyle = this.colour.quiet;
      c.fillText(price, b.x + b.w - room + 4, b.y + 1 + HEADER / 2);
    }
  }

  /** @param {CanvasRenderingContext2D} c @param {string} text @param {[number, number, number]} place */
  clipped(c, text, [x, y, width]) {
    let t = text;
    if (c.measureText(t).width > width) {
      const fits = Math.floor(t.length * width / c.measureText(t).width) - 2;
      if (fits < 3) return;
      t = `${t.slice(0, fits)}…`;
    }
    c.fillText(t, x, y);
  }

  // at is the node, and the pod if any, at a place of the canvas.
  /** @param {number} x @param {number} y @returns {ui.Hit | null} */
  at(x, y) {
    const box = this.boxes.find((b) => x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + b.h);
    if (!box) return null;
    const {order, rects} = podsIn(box.node, box);
    for (let i = 0; i < order.length; i++) {
      const rect = rects.slice(4 * i, 4 * i + 4);
      if (x - box.x >= rect[0] && x - box.x < rect[0] + rect[2] && y - box.y >= rect[1] && y - box.y < rect[1] + rect[3]) {
        const k = order[i];
        return {box, rect, pod: {name: box.node.podRows[k], cpu: box.node.podRows[k + 1], memory: box.node.podRows[k + 2], flags: box.node.podRows[k + 3]}};
      }
    }
    for (const {spare, rect} of spareIn(box.node, box)) {
      if (x - box.x >= rect[0] && x - box.x < rect[0] + rect[2] && y - box.y >= rect[1] && y - box.y < rect[1] + rect[3]) return {box, rect, spare};
    }
    return {box};
  }

  // neighbour is the nearest node in a direction from the selected one.
  /** @param {number} dx @param {number} dy */
  neighbour(dx, dy) {
    const from = this.boxes.find((b) => b.node.key === this.selected);
    if (!from) return this.boxes[0];
    const mid = (/** @type {ui.Box} */ b) => [b.x + b.w / 2, b.y + b.h / 2];
    const [x, y] = mid(from);
    /** @type {ui.Box | null} */
    let best = null;
    let least = Infinity;
    for (const b of this.boxes) {
      const [bx, by] = mid(b);
      const along = (bx - x) * dx + (by - y) * dy;
      if (b === from || along <= 1) continue;
      const far = along + 3 * Math.abs((bx - x) * dy) + 3 * Math.abs((by - y) * dx);
      if (far < least) [best, least] = [b, far];
    }
    return best;
  }
}
