// The overview: what there is, what it costs, what is pending, what changes next.

import {age, badge, bar, choice, fill, h} from './dom.js';
import {brief, cores, count, dollars, hourly, memory, monthly, percent, plural, podLink, seconds, share, splitPod} from './format.js';
import {chart} from './chart.js';
import {entry, tree} from './reasons.js';
import {aborted, messageOf} from './store.js';
import {table} from './table.js';

const LATEST = 6;
const STEP = 1; // seconds between the figures of a chart, at least
const MOST = 2000; // figures in a chart
const RANGES = [['3600', '1 h'], ['21600', '6 h'], ['86400', '24 h'], ['', '31 d']];
/** @type {Record<string, [string, string]>} */
const words = {new: ['to be planned', 'neutral'], launch: ['new node', 'good'], room: ['room found', 'good'], unschedulable: ['unschedulable', 'bad']};

/** @param {string} label */
function figure(label) {
  const value = h('strong', {class: 'figure-value'});
  const note = h('span', {class: 'quiet figure-note'});
  const extra = h('span', {class: 'figure-extra'});
  return {
    element: h('div', {class: 'card figure'}, h('span', {class: 'label'}, label), value, note, extra),
    /** @param {ui.Child} v @param {ui.Child} n @param {ui.Child} [x] */
    set(v, n, x) {
      fill(value, v);
      fill(note, n);
      fill(extra, x);
    },
  };
}

// shares shows which parts of the cost something has.
/**
 * @param {string} title
 * @param {api.Portion[]} list
 * @param {number} all
 * @param {(x: api.Portion, i: number) => {name: string, colour: string}} look
 */
function shares(title, list, all, look) {
  const known = list.filter((x) => x.nodes > 0);
  const nodes = known.reduce((sum, x) => sum + x.nodes, 0);
  const whole = (/** @type {api.Portion} */ x) => (all > 0 ? x.pricePerHour / all : x.nodes / nodes);
  return h('section', {class: 'card'}, h('h2', {}, title),
    h('div', {class: 'stack', 'aria-hidden': 'true'}, known.map((x, i) => h('span', {class: 'stack-part swatch', data: {c: look(x, i).colour}, width: whole(x) * 100}))),
    h('ul', {class: 'share-list'}, known.slice(0, 6).map((x, i) => h('li', {}, h('span', {class: 'swatch', data: {c: look(x, i).colour}}), h('span', {class: 'share-name'}, look(x, i).name), h('span', {class: 'quiet'}, plural(x.nodes, 'node')), h('span', {class: 'num'}, x.pricePerHour > 0 ? hourly(x.pricePerHour) : 'price unknown')))));
}

/** @param {ui.Context} context @returns {ui.View} */
export function overview({store}) {
  const cost = figure('Cost');
  const nodes = figure('Nodes');
  const pods = figure('Pods');
  const use = figure('Requested');
  const saved = figure('Saved by moves');
  const costs = chart({title: 'Cost', words: hourly, kind: 'cost'});
  const fleet = chart({title: 'Nodes', words: (v) => count(v), kind: 'nodes', whole: true});
  const pendings = chart({title: 'Pending pods', words: (v) => count(v), kind: 'pending', whole: true});
  const parts = h('div', {class: 'parts'});
  const coming = h('div', {class: 'coming'});
  const problems = h('div', {});
  const latest = h('ol', {class: 'feed short', 'aria-label': 'The latest decisions'});
  const stop = new AbortController();
  /** @type {ReturnType<typeof table<api.Pending>>} */
  const pending = table({
    caption: 'Pending pods', key: (g) => `${g.pods[0]} ${g.state} ${g.summary}`, empty: 'No pod is pending.',
    columns: [
      {id: 'pods', label: 'Pods', wide: true, cell: (g) => [h('a', {href: podLink(g.pods[0])}, splitPod(g.pods[0])[1]), h('div', {class: 'quiet small'}, (g.count || 0) > 1 ? `and ${plural((g.count || 0) - 1, 'other')}, each ` : '', `${cores(g.cpuMillicores || 0)} CPU, ${memory(g.memoryBytes || 0)}`)], value: (g) => g.pods[0]},
      {id: 'state', label: '', cell: (g) => badge(...words[g.state || 'new']), value: (g) => g.state || ''},
      {id: 'wait', label: 'Reason', wide: true, cell: (g) => ((g.why || []).length > 0 ? h('details', {class: 'inline'}, h('summary', {}, brief(g.summary || '')), tree(g.why)) : brief(g.summary || '')), value: (g) => g.summary || ''},
      {id: 'since', label: 'Since', numeric: true, cell: (g) => (g.since ? age(g.since, store) : '–'), value: (g) => seconds(g.since)},
    ],
  });
  /** @type {number[][]} */
  let samples = [];
  let range = '86400';
  /** @type {number[] | null} */
  let shown = null;
  /** @type {api.Entry[]} */
  let entries = [];

  function figures() {
    const t = store.totals;
    cost.set(hourly(t.pricePerHour), [monthly(t.pricePerHour), t.unpriced > 0 && `, without ${plural(t.unpriced, 'node')} of unknown price`]);
    const states = [t.starting > 0 && `${t.starting} starting`, t.deleting > 0 && `${t.deleting} deleting`, t.notReady > 0 && `${t.notReady} not ready`].filter(Boolean);
    nodes.set(count(t.nodes), states.length > 0 ? states.join(', ') : t.nodes > 0 ? 'all ready' : 'none yet');
    const spare = (t.spare || []).reduce((sum, s) => sum + s.pods, 0);
    pods.set(count(t.podSlots.requested), [t.pendingPods > 0 ? h('span', {class: 'warn'}, `${count(t.pendingPods)} pending`) : 'none pending', spare > 0 && [`, room for ${count(spare)} more `, h('span', {class: 'swatch', data: {c: 'spare'}})]]);
    use.set('', '', [
      h('span', {class: 'use'}, h('span', {class: 'use-name'}, 'CPU'), bar(share(t.cpuMillicores), 'CPU'), h('span', {class: 'use-text'}, percent(share(t.cpuMillicores)))),
      h('span', {class: 'use'}, h('span', {class: 'use-name'}, 'Memory'), bar(share(t.memoryBytes), 'Memory'), h('span', {class: 'use-text'}, percent(share(t.memoryBytes))))]);
    savings();
    fill(parts, t.nodes > 0 && [
      shares('By capacity type', t.capacityTypes, t.pricePerHour, (x) => ({name: x.name || 'unknown', colour: x.name || 'other'})),
      shares('By pool', t.pools, t.pricePerHour, (x, i) => ({name: x.name || 'no pool', colour: `p${i % 10}`})),
    ]);
  }

  function savings() {
    const s = store.sections.savings;
    saved.set(dollars(store.saved), s && s.moves > 0 ? `${hourly(s.savesPerHour)} less after ${plural(s.moves, 'move')}` : 'no move carried out yet');
  }

  function ahead() {
    const {add = [], moves = []} = store.next;
    const lines = [
      ...add.slice(0, 5).map((n) => h('li', {}, badge('Launch'), h('span', {class: 'num'}, hourly(n.pricePerHour)), h('p', {}, `${n.instanceType} in ${n.zone}, ${n.capacityType}, for ${plural(n.podRows.length / 4, 'pod')}`))),
      ...moves.slice(0, 5).map((m) => h('li', {}, badge(m.reason, 'Move'), h('span', {class: 'num gain'}, m.savesPerHour ? `saves ${hourly(m.savesPerHour)}` : ''), h('p', {}, brief(m.why.text)))),
    ];
    const left = add.length + moves.length - lines.length;
    fill(coming, lines.length === 0 ? h('p', {class: 'quiet'}, 'Nothing is about to change.') : h('ul', {class: 'lines'}, lines), left > 0 && h('p', {class: 'quiet'}, `and ${left} more`),
      lines.length > 0 && h('p', {}, h('a', {href: '#/fleet?when=after'}, 'See the fleet afterwards')));
  }

  function trouble() {
    fill(problems, store.problems.length > 0 && h('details', {class: 'card problems'}, h('summary', {}, `${plural(store.problems.length, 'object')} set aside`),
      h('ul', {}, store.problems.map((p) => h('li', {}, h('strong', {}, `${p.kind} ${p.name}`), ' ', p.text)))));
  }

  function draw() {
    const t = store.totals;
    const now = [store.now(), t.pricePerHour, t.nodes, t.podSlots.requested, t.pendingPods];
    // What was shown last stays on the chart until the controller's own figures come.
    const newest = samples.length > 0 ? samples[samples.length - 1][0] : 0;
    if (shown && shown[0] > newest && now[0] - shown[0] >= STEP) samples = [...samples, shown].slice(-MOST);
    shown = now;
    const since = range ? now[0] - Number(range) : 0;
    const all = [...samples.filter((x) => x[0] >= since), now];
    costs.update(all.map((x) => [x[0], x[1]]));
    fleet.update(all.map((x) => [x[0], x[2]]));
    pendings.update(all.map((x) => [x[0], x[4]]));
  }

  async function load() {
    try {
      /** @type {[api.History, api.DecisionList]} */
      const [got, said] = await Promise.all([store.json('history', stop.signal), store.json(`decisions?limit=${LATEST}`, stop.signal)]);
      samples = got.samples;
      entries = said.decisions;
      draw();
      feed();
    } catch (error) {
      if (!aborted(error)) fill(latest, h('li', {class: 'trouble'}, messageOf(error)));
    }
  }

  const feed = () => fill(latest, entries.length > 0 ? entries.map((e) => entry(e, store)) : h('li', {class: 'quiet'}, 'No decision yet.'));

  figures();
  pending.update(store.pending);
  ahead();
  trouble();
  draw();
  load();
  const clock = setInterval(savings, 5000);
  const again = setInterval(load, 60000);
  return {
    title: 'Overview',
    element: h('div', {class: 'page'},
      h('h1', {class: 'hidden'}, 'Overview'),
      h('div', {class: 'figures'}, cost.element, nodes.element, pods.element, use.element, saved.element),
      h('div', {class: 'controls'}, choice('Time', RANGES, range, (id) => {
        range = id;
        draw();
      })),
      h('div', {class: 'charts'}, costs.element, fleet.element, pendings.element),
      problems,
      h('div', {class: 'columns'},
        h('section', {class: 'card grow'}, h('h2', {}, 'Pending pods'), pending.element),
        h('section', {class: 'card'}, h('h2', {}, 'Next changes'), coming)),
      parts,
      h('section', {class: 'card'}, h('h2', {}, 'Latest decisions'), latest, h('p', {}, h('a', {href: '#/decisions'}, 'All decisions')))),
    update(change) {
      if (change.totals) figures();
      else if (change.savings) savings();
      if (change.totals) draw();
      if (change.pending) pending.update(store.pending);
      if (change.next) ahead();
      if (change.problems) trouble();
    },
    decision(e) {
      entries = [e, ...entries.filter((x) => x.id !== e.id)].sort((a, b) => b.id - a.id).slice(0, LATEST);
      feed();
    },
    missed: load,
    close() {
      stop.abort();
      clearInterval(clock);
      clearInterval(again);
    },
  };
}
