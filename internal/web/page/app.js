// Starts the page: one store, one view at a time, chosen by the part of the address after the hash.

import {fill, h, part, say, text} from './dom.js';
import {shortName, nodeLink, podLink} from './format.js';
import {Store} from './store.js';
import {overview} from './overview.js';
import {fleet} from './fleet.js';
import {decisions, decision, interruptions} from './decisions.js';
import {nodePage, podPage} from './detail.js';
import {pools} from './pools.js';
import {prices} from './prices.js';
import {costs} from './costs.js';

const store = new Store();
const main = part('main', HTMLElement);
const signOut = part('sign-out', HTMLButtonElement);

const tabs = [['', 'Overview'], ['fleet', 'Fleet'], ['decisions', 'Decisions'], ['pools', 'Pools'], ['costs', 'Costs'], ['prices', 'Prices'], ['interruptions', 'Interruptions']];
/** @type {Record<string, (context: ui.Context) => ui.View>} */
const views = {'': overview, fleet, decisions, decision, pools, costs, prices, interruptions, node: nodePage, pod: podPage};
/** @type {Record<string, string>} */
const under = {node: 'fleet', pod: 'fleet', decision: 'decisions'}; // the tab that a page without one belongs to

/** @type {ui.View | null} */
let view = null;
let loaded = false;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...args] = path.split('/').map(decodeURIComponent);
  return {name: views[name] ? name : '', args, query: new URLSearchParams(query || '')};
}

/** @param {boolean} focus */
function show(focus) {
  const {name, args, query} = route();
  drawTabs(name);
  if (!loaded) return;
  view?.close?.();
  view = views[name]({store, args, query});
  fill(main, view.element);
  document.title = `${view.title} · ${store.about.cluster || 'Karpenter'}`;
  if (focus) {
    scrollTo(0, 0);
    main.focus({preventScroll: true});
    say(view.title);
  }
}

/** @param {string} name */
function drawTabs(name) {
  const current = under[name] ?? name;
  const nav = part('tabs', HTMLElement);
  if (nav.childElementCount === 0) {
    fill(nav, tabs.map(([id, label]) => h('a', {href: `#/${id}`, data: {id}}, label)));
  }
  for (const a of nav.querySelectorAll('a')) {
    if (a.dataset.id === current) {
      a.setAttribute('aria-current', 'page');
      a.scrollIntoView({block: 'nearest', inline: 'nearest'});
    } else a.removeAttribute('aria-current');
  }
}

store.on('change', (change) => {
  const {cluster, region} = store.about;
  text(part('cluster', HTMLElement), [cluster, region].filter(Boolean).join(' · '));
  if (!loaded) {
    loaded = true;
    signOut.hidden = !store.signedIn;
    show(false);
    painted();
    return;
  }
  const began = store.received;
  view?.update?.(change);
  // What is drawn within a frame is on the screen when the next task begins.
  requestAnimationFrame(() => setTimeout(() => performance.measure('update', {start: began, end: performance.now()}), 0));
});

// painted notes when the first data was on the screen.
function painted() {
  requestAnimationFrame(() => setTimeout(() => performance.mark('painted'), 0));
}

store.on('line', ({state, text: said, why}) => {
  const line = part('line', HTMLElement);
  line.dataset.state = state;
  line.title = said;
  text(part('line-text', HTMLElement), said);
  if (!loaded && why) fill(main, h('p', {class: 'trouble pad', role: 'alert'}, `There is nothing to show yet: ${why}`));
});

store.on('decision', (entry) => view?.decision?.(entry));
store.on('missed', () => view?.missed?.());
store.on('denied', (said) => signIn(said.text));

// Whoever signs out has the page loaded anew: nothing of the cluster stays in it.
signOut.addEventListener('click', () => {
  store.signOut();
  location.reload();
});

// signIn asks for a token; it stays in this tab and is gone when the tab is closed.
/** @param {string} problem */
function signIn(problem) {
  loaded = false;
  store.run = '';
  signOut.hidden = true;
  store.tell('line', {state: 'lost', text: 'Signed out'});
  const token = h('input', {id: 'token', type: 'password', autocomplete: 'off', required: true, 'aria-describedby': 'token-help'});
  const form = h('form', {
    class: 'card sign-in',
    onsubmit: (event) => {
      event.preventDefault();
      store.signIn(token.value);
      fill(main, h('p', {class: 'quiet pad'}, 'Loading the cluster…'));
      store.start();
    },
  },
  h('h1', {}, 'Sign in'),
  h('p', {class: 'trouble', role: 'alert'}, problem),
  h('label', {for: 'token'}, 'Token of a Kubernetes account'),
  token,
  h('p', {class: 'quiet', id: 'token-help'}, 'For example of ', h('code', {}, 'kubectl create token NAME'), '. It is kept in this tab only, and sent to nobody but this controller.'),
  h('button', {class: 'primary'}, 'Sign in'));
  fill(main, form);
  document.title = 'Sign in · Karpenter';
  token.focus();
}

// Theme: what the system says, unless somebody has chosen.
/** @type {Record<string, string>} */
const themes = {auto: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark'};
/** @type {Record<string, string>} */
const media = {auto: '(prefers-color-scheme: dark)', light: 'not all', dark: 'all'};

/** @param {string} name */
function theme(name) {
  const button = part('theme', HTMLButtonElement);
  document.documentElement.dataset.theme = name;
  part('dark', HTMLLinkElement).media = media[name];
  button.dataset.theme = name;
  button.setAttribute('aria-label', themes[name]);
  button.title = themes[name];
  try {
    localStorage.setItem('karpenter-theme', name);
  } catch { /* a browser that keeps nothing */ }
  view?.theme?.();
}

function savedTheme() {
  try {
    const name = localStorage.getItem('karpenter-theme');
    return name && themes[name] ? name : 'auto';
  } catch {
    return 'auto';
  }
}

part('theme', HTMLButtonElement).addEventListener('click', () => {
  const names = Object.keys(themes);
  const name = names[(names.indexOf(document.documentElement.dataset.theme || '') + 1) % names.length];
  theme(name);
  say(themes[name]);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view?.theme?.());

// The search box.
const find = part('find', HTMLInputElement);
const found = part('found', HTMLElement);

function search() {
  const words = find.value.trim();
  const list = words.length < 2 ? [] : store.find(words, 12);
  fill(found, list.map((x, i) => h('li', {role: 'option', id: `found-${i}`, 'aria-selected': 'false'},
    h('a', {href: x.kind === 'node' ? nodeLink(x.node.key) : podLink(x.name), tabindex: '-1'},
      h('span', {class: 'quiet'}, x.kind), ' ', x.kind === 'node' ? shortName(x.node) : x.name))));
  found.hidden = list.length === 0;
  find.setAttribute('aria-expanded', String(list.length > 0));
  find.removeAttribute('aria-activedescendant');
}

/** @param {number} step */
function choose(step) {
  const all = [...found.children];
  if (all.length === 0) return;
  const at = all.findIndex((li) => li.getAttribute('aria-selected') === 'true');
  const to = (at + step + all.length + (at < 0 && step < 0 ? 1 : 0)) % all.length;
  all.forEach((li, i) => li.setAttribute('aria-selected', String(i === to)));
  find.setAttribute('aria-activedescendant', all[to].id);
}

function closeSearch() {
  found.hidden = true;
  find.setAttribute('aria-expanded', 'false');
}

// within says whether an event was in an element that matches.
/** @param {Event} event @param {string} selector */
const within = (event, selector) => event.target instanceof Element && event.target.closest(selector) !== null;

find.addEventListener('input', search);
find.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    choose(event.key === 'ArrowDown' ? 1 : -1);
  } else if (event.key === 'Escape') closeSearch();
});
found.addEventListener('click', closeSearch);
document.addEventListener('click', (event) => {
  if (!within(event, '#search')) closeSearch();
});
part('search', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  const link = (found.querySelector('[aria-selected="true"]') || found.firstElementChild)?.querySelector('a');
  if (!link) return;
  location.hash = link.hash;
  find.value = '';
  closeSearch();
});
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !within(event, 'input, textarea, select')) {
    event.preventDefault();
    find.focus();
  }
});
part('skip', HTMLAnchorElement).addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

addEventListener('hashchange', () => show(true));
theme(savedTheme());
show(false);
store.start();
