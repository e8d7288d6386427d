// A line over time with the area below it, its axes, and the figure under the pointer.

import {fill, h, s} from './dom.js';
import {short, time} from './format.js';

const W = 600;
const H = 120; // as high as in the style sheet, so that figures stand beside their lines
const LEFT = 2;
const BOTTOM = 8;
const TOP = 8;
const LABEL = 14; // height of a figure

// nice rounds a maximum up so that the axis has round figures.
/** @param {number} top */
function nice(top) {
  if (top <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(top));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((x) => x * unit).find((x) => x >= top) || 10 * unit;
}

// chart draws points. words turns a value into text; whole says that there are only whole ones. The figure of now stands elsewhere
// on the page: the chart says the one under the pointer.
/** @param {{title: string, words: (value: number) => string, kind: string, whole?: boolean}} options */
export function chart({title, words, kind, whole}) {
  const svg = s('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', class: 'chart-svg', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  const now = h('strong', {class: 'chart-now'});
  const at = h('span', {class: 'quiet'});
  const rows = [1, 0.5, 0].map((part) => ({part, el: h('div', {class: 'chart-y'})}));
  const columns = [0, 0.5, 1].map((part) => ({part, el: h('span', {class: 'chart-x'})}));
  const element = h('figure', {class: 'card chart', data: {kind}},
    h('figcaption', {}, h('span', {class: 'label'}, title), now, at),
    h('div', {class: 'chart-box', 'aria-hidden': 'true'}, svg, rows.map(({el}) => el), columns.map(({el}) => el)));
  /** @type {ui.Point[]} */
  let points = [];
  /** @type {ui.Point | null} */
  let to = null; // the one under the pointer

  function scales() {
    const from = points[0][0];
    const until = Math.max(points[points.length - 1][0], from + 1);
    const high = nice(Math.max(...points.map((p) => p[1])));
    return {
      x: (/** @type {number} */ t) => LEFT + (W - 2 * LEFT) * (t - from) / (until - from),
      y: (/** @type {number} */ v) => TOP + (H - TOP - BOTTOM) * (1 - v / high),
      high, from, until,
    };
  }

  function draw() {
    if (points.length === 0) return;
    const c = scales();
    // A figure holds until the next one is taken; one alone is a line too.
    const end = points.length > 1 ? c.x(points[points.length - 1][0]).toFixed(1) : W - LEFT;
    const line = `${points.map(([t, v], i) => (i ? `H${c.x(t).toFixed(1)}V${c.y(v).toFixed(1)}` : `M${c.x(t).toFixed(1)} ${c.y(v).toFixed(1)}`)).join('')}H${end}`;
    const base = c.y(0);
    fill(svg,
      [0.5, 1].map((part) => s('line', {class: 'chart-grid', x1: LEFT, x2: W - LEFT, y1: c.y(c.high * part), y2: c.y(c.high * part)})),
      s('line', {class: 'chart-base', x1: LEFT, x2: W - LEFT, y1: base, y2: base}),
      s('path', {class: 'chart-area', d: `${line}V${base}H${LEFT}Z`}),
      s('path', {class: 'chart-line', d: line}),
      to && s('line', {class: 'chart-cursor', x1: c.x(to[0]), x2: c.x(to[0]), y1: TOP, y2: base}));
    const p = to || points[points.length - 1];
    fill(now, to ? words(p[1]) : '');
    fill(at, to ? time(p[0] * 1000) : '');
    for (const {part, el} of rows) {
      fill(el, whole && !Number.isInteger(c.high * part) ? '' : words(c.high * part));
      el.style.top = `${c.y(c.high * part) - LABEL / 2}px`;
    }
    for (const {part, el} of columns) {
      const t = (c.from + (c.until - c.from) * part) * 1000;
      fill(el, part === 1 ? 'now' : part === 0 ? time(t) : short(t));
    }
    element.setAttribute('aria-label', `${title}: ${words(points[points.length - 1][1])} now, ${words(Math.min(...points.map((q) => q[1])))} to ${words(Math.max(...points.map((q) => q[1])))} since ${time(c.from * 1000)}`);
  }

  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    if (points.length === 0 || box.width === 0) return;
    const c = scales();
    const t = c.from + (c.until - c.from) * ((event.clientX - box.left) / box.width * W - LEFT) / (W - 2 * LEFT);
    to = points.reduce((best, p) => (Math.abs(p[0] - t) < Math.abs(best[0] - t) ? p : best));
    draw();
  });
  svg.addEventListener('pointerleave', () => {
    to = null;
    draw();
  });

  return {
    element,
    /** @param {ui.Point[]} list */
    update(list) {
      points = list;
      draw();
    },
  };
}
