// Elements without markup: every text becomes a text node, so that no name can ever be read as code.

import {moment as full, seconds, span} from './format.js';

const NS = 'http://www.w3.org/2000/svg';

/**
 * @template {HTMLElement | SVGElement} T
 * @param {T} el
 * @param {ui.Props} [props]
 * @param {ui.Child[]} [children]
 */
function build(el, props = {}, children = []) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') el.addEventListener(name.slice(2), value);
    else if (typeof value === 'object') Object.assign(el.dataset, value);
    else if (name === 'width' && el instanceof HTMLElement && typeof value === 'number') el.style.width = `${value}%`;
    else if (name === 'left' && typeof value === 'number') el.style.left = `${value}%`;
    else el.setAttribute(name, value === true ? '' : String(value));
  }
  add(el, children);
  return el;
}

/** @param {Element} el @param {ui.Child[]} children */
function add(el, children) {
  for (const child of children) {
    if (child === undefined || child === null || typeof child === 'boolean' || child === '') continue;
    if (Array.isArray(child)) add(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// h makes an element: h('p', {class: 'quiet', onclick: f}, 'text', child). Numbers for width and left are percentages.
/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {ui.Props} [props]
 * @param {...ui.Child} children
 */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

// s makes an element of a drawing.
/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {ui.Props} [props]
 * @param {...ui.Child} children
 */
export function s(tag, props, ...children) {
  return build(document.createElementNS(NS, tag), props, children);
}

// fill replaces what is in an element.
/**
 * @template {Element} T
 * @param {T} el
 * @param {...ui.Child} children
 */
export function fill(el, ...children) {
  el.textContent = '';
  add(el, children);
  return el;
}

// text sets a text only if it is another, so that screen readers are not told twice.
/** @param {Element} el @param {string} value */
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// part is an element that index.html has.
/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function part(id, kind) {
  const el = document.getElementById(id);
  if (el instanceof kind) return el;
  throw new Error(`index.html has no ${kind.name} with the id ${id}`);
}

// say tells a screen reader.
/** @param {string} value */
export function say(value) {
  text(part('say', HTMLElement), value);
}

// bar shows a part of a whole, with the figure next to it.
/** @param {number} filled @param {string} label */
export function bar(filled, label) {
  const p = Math.max(0, Math.min(1, filled || 0));
  return h('span', {class: 'bar', role: 'img', 'aria-label': label, data: {kind: p > 0.9 ? 'high' : ''}},
    h('span', {class: 'bar-fill', width: p * 100}));
}

/** @type {WeakMap<Element, () => void>} */
const ages = new WeakMap();

// age is how long ago a moment was; it moves on by itself.
/** @param {string} moment @param {ui.Store} store */
export function age(moment, store) {
  const el = h('time', {datetime: moment, title: full(moment)});
  const write = () => text(el, span(store.now() - seconds(moment)));
  write();
  ages.set(el, write);
  el.dataset.age = '';
  return el;
}

// Ages are written anew every second, those that are in the page.
setInterval(() => {
  for (const el of document.querySelectorAll('[data-age]')) ages.get(el)?.();
}, 1000);

// badge is a word in a small frame.
/** @param {string} word @param {string} [kind] */
export function badge(word, kind) {
  return h('span', {class: 'badge', data: {kind: kind || word}}, word);
}

// choice is a row of buttons of which one is pressed.
/**
 * @param {string} label
 * @param {string[][]} options ids and names
 * @param {string} value
 * @param {(id: string) => void} pick
 * @returns {HTMLElement}
 */
export function choice(label, options, value, pick) {
  /** @type {HTMLElement[]} */
  const buttons = options.map(([id, name]) => h('button', {
    type: 'button', 'aria-pressed': String(id === value), data: {id},
    onclick: () => {
      for (const b of buttons) b.setAttribute('aria-pressed', String(b.dataset.id === id));
      pick(id);
    },
  }, name));
  return h('div', {class: 'choice', role: 'group', 'aria-label': label}, h('span', {class: 'choice-label', 'aria-hidden': 'true'}, label), buttons);
}
