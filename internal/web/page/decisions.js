// The feed of decisions, one decision, and what the cloud has interrupted.

import {choice, fill, h, say} from './dom.js';
import {plural} from './format.js';
import {entry} from './reasons.js';
import {aborted, messageOf} from './store.js';

const kinds = [['', 'All'], ['Plan', 'Plans'], ['Move', 'Moves'], ['Launch', 'Launches'], ['Removal', 'Removals'], ['Refusal', 'Refusals'], ['Failure', 'Failures'], ['Interruption', 'Interruptions']];
const MOST = 300;

// feed lists decisions and keeps itself up to date.
/** @param {ui.Store} store @param {{kind: string, empty: string}} options */
function feed(store, {kind, empty}) {
  const list = h('ol', {class: 'feed', 'aria-label': 'Decisions, the newest first'});
  const none = h('p', {class: 'quiet pad', hidden: true}, empty);
  const stop = new AbortController();
  let wanted = kind;
  let words = '';
  /** @type {api.Entry[]} */
  let entries = [];

  /** @param {api.Entry} e */
  const matches = (e) => (!wanted || e.kind === wanted)
    && (!words || `${e.summary} ${e.reason} ${(e.about || []).map((r) => r.name).join(' ')}`.toLowerCase().includes(words));

  function draw() {
    const show = entries.filter(matches);
    fill(list, show.map((e) => entry(e, store)));
    none.hidden = show.length > 0;
  }

  async function load() {
    try {
      /** @type {api.DecisionList} */
      const got = await store.json(`decisions?limit=${MOST}${kind ? `&kind=${kind}` : ''}`, stop.signal);
      entries = got.decisions;
      draw();
    } catch (error) {
      if (!aborted(error)) fill(list, h('li', {class: 'trouble'}, messageOf(error)));
    }
  }

  load();
  return {
    element: h('div', {}, list, none),
    /** @param {string} k */
    pick(k) {
      wanted = k;
      draw();
    },
    /** @param {string} text */
    filter(text) {
      words = text.trim().toLowerCase();
      draw();
    },
    missed: load,
    /** @param {api.Entry} e */
    decision(e) {
      if (kind && e.kind !== kind) return;
      const at = entries.findIndex((x) => x.id === e.id);
      const old = list.querySelector(`li[data-id="${e.id}"]`);
      if (at >= 0) entries[at] = e;
      else entries.unshift(e);
      entries.length = Math.min(entries.length, MOST);
      if (!matches(e)) return;
      const fresh = entry(e, store, old?.querySelector('details')?.open);
      if (old) old.replaceWith(fresh);
      else {
        fresh.classList.add('fresh');
        list.prepend(fresh);
        say(`New decision: ${e.summary}`);
      }
      while (list.childElementCount > MOST) list.lastElementChild?.remove();
      none.hidden = true;
    },
    close: () => stop.abort(),
  };
}

/** @param {ui.Context} context @returns {ui.View} */
export function decisions({store, query}) {
  const [kind] = kinds.find(([id]) => id === query.get('kind')) || [''];
  const list = feed(store, {kind: '', empty: 'No decision of this kind since the controller began.'});
  list.pick(kind);
  const words = h('input', {type: 'search', placeholder: 'Filter', 'aria-label': 'Filter the decisions', oninput: () => list.filter(words.value)});
  return {
    title: 'Decisions',
    element: h('div', {class: 'page'},
      h('div', {class: 'head'}, h('h1', {}, 'Decisions'), h('p', {class: 'quiet'}, 'Everything that was decided since the controller began, each with its reason. The newest is on top, and new ones appear by themselves.')),
      h('div', {class: 'controls'}, choice('Show', kinds, kind, (id) => {
        list.pick(id);
        history.replaceState(null, '', `#/decisions${id ? `?kind=${id}` : ''}`);
      }), words),
      list.element),
    decision: list.decision,
    missed: list.missed,
    close: list.close,
  };
}

/** @param {ui.Context} context @returns {ui.View} */
export function decision({store, args}) {
  const id = args[0];
  const box = h('ol', {class: 'feed'}, h('li', {class: 'quiet'}, 'Loading…'));
  const load = async () => {
    try {
      /** @type {api.Decision} */
      const got = await store.json(`decisions/${encodeURIComponent(id)}`);
      fill(box, entry(got.decision, store, true));
    } catch (error) {
      fill(box, h('li', {class: 'trouble'}, messageOf(error)));
    }
  };
  load();
  return {
    title: `Decision ${id}`,
    element: h('div', {class: 'page'}, h('div', {class: 'head'}, h('p', {}, h('a', {href: '#/decisions'}, 'All decisions')), h('h1', {}, `Decision ${id}`)), box),
    decision(e) {
      if (String(e.id) === id) load();
    },
  };
}

/** @param {ui.Context} context @returns {ui.View} */
export function interruptions({store}) {
  const list = feed(store, {kind: 'Interruption', empty: 'The cloud has interrupted no instance since the controller began.'});
  const losses = feed(store, {kind: 'Failure', empty: 'Nothing that was decided has failed since the controller began.'});
  const leaving = h('p', {class: 'quiet'});
  const update = () => fill(leaving, `Now: ${plural(store.totals.deleting, 'node')} being deleted, ${plural(store.totals.notReady, 'node')} not ready.`);
  update();
  return {
    title: 'Interruptions',
    element: h('div', {class: 'page'},
      h('div', {class: 'head'}, h('h1', {}, 'Interruptions'), h('p', {class: 'quiet'}, 'Instances that the cloud interrupts or warns about: spot interruptions, rebalance recommendations, scheduled maintenance, and instances that stopped by themselves.'), leaving),
      list.element,
      h('h2', {}, 'What could not be had'), losses.element),
    update,
    decision(e) {
      list.decision(e);
      losses.decision(e);
    },
    missed() {
      list.missed();
      losses.missed();
    },
    close() {
      list.close();
      losses.close();
    },
  };
}
