// Starts the page: one store, one view at a time, chosen by the part of the address after the hash.

import {fill, h, say, text} from './dom.js';
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
const main = document.getElementById('main');

const tabs = [['', 'Overview'], ['fleet', 'Fleet'], ['decisions', 'Decisions'], ['pools', 'Pools'], ['costs', 'Costs'], ['prices', 'Prices'], ['interruptions', 'Interruptions']];
const views = {'': overview, fleet, decisions, decision, pools, costs, prices, interruptions, node: nodePage, pod: podPage};
const under = {node: 'fleet', pod: 'fleet', decision: 'decisions'}; // the tab that a page without one belongs to

let view = null;
let loaded = false;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...args] = path.split('/').map(decodeURIComponent);
  return {name: views[name] ? name : '', args, query: new URLSearchParams(query || '')};
}

function show(focus) {
  const {name, args, query} = route();
  drawTabs(name);
  if (!loaded) return;
  if (view && view.close) view.close();
  view = views[name]({store, args, query});
  fill(main, view.element);
  document.title = `${view.title} · ${store.about.cluster || 'Karpenter'}`;
  if (focus) {
    scrollTo(0, 0);
    main.focus({preventScroll: true});
    say(view.title);
  }
}

function drawTabs(name) {
  const current = under[name] ?? name;
  const nav = document.getElementById('tabs');
  if (nav.childElementCount === 0) {
    fill(nav, tabs.map(([id, label]) => h('a', {href: `#/${id}`, data: {id}}, label, h('span', {class: 'tab-count', data: {count: id}}))));
  }
  for (const a of nav.children) {
    if (a.dataset.id === current) {
      a.setAttribute('aria-current', 'page');
      a.scrollIntoView({block: 'nearest', inline: 'nearest'});
    } else a.removeAttribute('aria-current');
  }
}

store.addEventListener('change', ({detail}) => {
  const {cluster, region} = store.about;
  text(document.getElementById('cluster'), [cluster, region].filter(Boolean).join(' · '));
  if (!loaded) {
    loaded = true;
    document.getElementById('sign-out').hidden = !store.signedIn;
    show(false);
    painted();
    return;
  }
  const began = store.received;
  if (view.update) view.update(detail);
  // What is drawn within a frame is on the screen when the next task begins.
  requestAnimationFrame(() => setTimeout(() => performance.measure('update', {start: began, end: performance.now()}), 0));
});

// painted notes when the first data was on the screen.
function painted() {
  requestAnimationFrame(() => setTimeout(() => performance.mark('painted'), 0));
}

store.addEventListener('line', ({detail}) => {
  const line = document.getElementById('line');
  line.dataset.state = detail.state;
  line.title = detail.text;
  text(line.firstElementChild, detail.text);
  if (!loaded && detail.why) fill(main, h('p', {class: 'trouble pad', role: 'alert'}, `There is nothing to show yet: ${detail.why}`));
});

store.addEventListener('decision', ({detail}) => {
  if (view && view.decision) view.decision(detail);
});
store.addEventListener('missed', () => {
  if (view && view.missed) view.missed();
});
store.addEventListener('denied', ({detail}) => signIn(detail.text));

// Whoever signs out has the page loaded anew: nothing of the cluster stays in it.
document.getElementById('sign-out').addEventListener('click', () => {
  store.signOut();
  location.reload();
});

// signIn asks for a token; it stays in this tab and is gone when the tab is closed.
function signIn(problem) {
  loaded = false;
  store.run = '';
  document.getElementById('sign-out').hidden = true;
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
const themes = {auto: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark'};
const media = {auto: '(prefers-color-scheme: dark)', light: 'not all', dark: 'all'};

function theme(name) {
  const button = document.getElementById('theme');
  document.documentElement.dataset.theme = name;
  document.getElementById('dark').media = media[name];
  button.dataset.theme = name;
  button.setAttribute('aria-label', themes[name]);
  button.title = themes[name];
  try {
    localStorage.setItem('karpenter-theme', name);
  } catch { /* a browser that keeps nothing */ }
  if (view && view.theme) view.theme();
}

function savedTheme() {
  try {
    const name = localStorage.getItem('karpenter-theme');
    return themes[name] ? name : 'auto';
  } catch {
    return 'auto';
  }
}

document.getElementById('theme').addEventListener('click', () => {
  const names = Object.keys(themes);
  const name = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  theme(name);
  say(themes[name]);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view && view.theme && view.theme());

// The search box.
const find = document.getElementById('find');
const found = document.getElementById('found');

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

find.addEventListener('input', search);
find.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    choose(event.key === 'ArrowDown' ? 1 : -1);
  } else if (event.key === 'Escape') closeSearch();
});
found.addEventListener('click', closeSearch);
document.addEventListener('click', (event) => {
  if (!event.target.closest('#search')) closeSearch();
});
document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  const link = (found.querySelector('[aria-selected="true"]') || found.firstElementChild)?.querySelector('a');
  if (!link) return;
  location.hash = link.getAttribute('href');
  find.value = '';
  closeSearch();
});
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.closest('input, textarea, select')) {
    event.preventDefault();
    find.focus();
  }
});
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

addEventListener('hashchange', () => show(true));
theme(savedTheme());
show(false);
store.start();
