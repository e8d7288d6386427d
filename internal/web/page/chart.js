// A line over time with the area below it, and the figure under the pointer.

import {fill, h, s} from './dom.js';
import {time} from './format.js';

const W = 600;
const H = 150;
const LEFT = 8;
const BOTTOM = 18;
const TOP = 20;

// nice rounds a maximum up so that the axis has round figures.
function nice(top) {
  if (top <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(top));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((x) => x * unit).find((x) => x >= top) || 10 * unit;
}

// chart draws points [seconds, value]. write turns a value into text.
export function chart({title, write, kind}) {
  const svg = s('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', class: 'chart-svg', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  const now = h('strong', {class: 'chart-now'});
  const at = h('span', {class: 'quiet chart-at'});
  const top = h('span', {class: 'chart-top'});
  const first = h('span', {class: 'chart-first'});
  const last = h('span', {class: 'chart-last'});
  const element = h('figure', {class: 'card chart', data: {kind}},
    h('figcaption', {}, h('span', {class: 'label'}, title), now, at),
    h('div', {class: 'chart-box'}, svg, top, first, last));
  let points = [];
  let to = null;

  function scales() {
    const from = points[0][0];
    const until = Math.max(points[points.length - 1][0], from + 1);
    const high = nice(Math.max(...points.map((p) => p[1])));
    return {
      x: (t) => LEFT + (W - 2 * LEFT) * (t - from) / (until - from),
      y: (v) => TOP + (H - TOP - BOTTOM) * (1 - v / high),
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
    fill(now, write(p[1]));
    fill(at, to ? time(p[0] * 1000) : '');
    fill(top, write(c.high));
    fill(first, time(c.from * 1000));
    fill(last, 'now');
    element.setAttribute('aria-label', `${title}: ${write(points[points.length - 1][1])} now, ${write(Math.min(...points.map((q) => q[1])))} to ${write(Math.max(...points.map((q) => q[1])))} since ${time(c.from * 1000)}`);
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
    update(list) {
      points = list;
      draw();
    },
  };
}
