// Elements without markup: every text becomes a text node, so that no name can ever be read as code.

import {moment as full, seconds, span} from './format.js';

const NS = 'http://www.w3.org/2000/svg';

function build(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'data') Object.assign(el.dataset, value);
    else if (name === 'width' && el instanceof HTMLElement && typeof value === 'number') el.style.width = `${value}%`;
    else if (name === 'left' && typeof value === 'number') el.style.left = `${value}%`;
    else el.setAttribute(name, value === true ? '' : value);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false || child === '') continue;
    if (Array.isArray(child)) add(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// h makes an element: h('p', {class: 'quiet', onclick: f}, 'text', child). Numbers for width and left are percentages.
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

// s makes an element of a drawing.
export function s(tag, props, ...children) {
  return build(document.createElementNS(NS, tag), props, children);
}

// fill replaces what is in an element.
export function fill(el, ...children) {
  el.textContent = '';
  add(el, children);
  return el;
}

// text sets a text only if it is another, so that screen readers are not told twice.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// say tells a screen reader.
export function say(value) {
  text(document.getElementById('say'), value);
}

// bar shows a part of a whole, with the figure next to it.
export function bar(part, label, kind) {
  const p = Math.max(0, Math.min(1, part || 0));
  return h('span', {class: 'bar', role: 'img', 'aria-label': label, data: {kind: kind || (p > 0.9 ? 'high' : '')}},
    h('span', {class: 'bar-fill', width: p * 100}));
}

// age is how long ago a moment was; it moves on by itself.
export function age(moment, store) {
  const el = h('time', {datetime: moment, title: full(moment)});
  const write = () => text(el, span(store.now() - seconds(moment)));
  write();
  el.tick = write;
  el.dataset.age = '';
  return el;
}

// Ages are written anew every second, those that are in the page.
setInterval(() => {
  for (const el of document.querySelectorAll('[data-age]')) el.tick?.();
}, 1000);

// badge is a word in a small frame.
export function badge(word, kind) {
  return h('span', {class: 'badge', data: {kind: kind || word}}, word);
}

// choice is a row of buttons of which one is pressed.
export function choice(label, options, value, pick) {
  const buttons = options.map(([id, name]) => h('button', {
    type: 'button', 'aria-pressed': String(id === value), data: {id},
    onclick: () => {
      for (const b of buttons) b.setAttribute('aria-pressed', String(b.dataset.id === id));
      pick(id);
    },
  }, name));
  return h('div', {class: 'choice', role: 'group', 'aria-label': label}, h('span', {class: 'choice-label', 'aria-hidden': 'true'}, label), buttons);
}
