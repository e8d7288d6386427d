// Reasons and answers: the same tree wherever it is shown.

import {badge, h} from './dom.js';
import {brief, hourly, moment, nodeLink, plural, podLink, splitPod, time} from './format.js';

// tree shows reasons with what they rest on; from the third level on it is folded.
/** @param {api.Reason[]} [reasons] @param {number} [depth] @returns {HTMLElement | null} */
export function tree(reasons, depth = 0) {
  if (!reasons || reasons.length === 0) return null;
  return h('ul', {class: 'reasons'}, reasons.map((r) => {
    const label = [h('span', {}, r.text), r.of ? h('span', {class: 'reason-count'}, `${r.count || 0} of ${r.of}`) : null, h('span', {class: 'reason-code', title: 'kind of reason'}, r.code)];
    if (!r.because || r.because.length === 0) return h('li', {class: 'reason'}, label);
    return h('li', {}, h('details', {open: depth < 2}, h('summary', {class: 'reason'}, label), tree(r.because, depth + 1)));
  }));
}

// link is a way to an object.
/** @param {api.Ref} ref @param {ui.Store} store */
function link(ref, store) {
  if (ref.kind === 'Pod') return h('a', {href: podLink(`${ref.namespace}/${ref.name}`)}, ref.name);
  if (ref.kind === 'Node') {
    const node = [...store.nodes.values()].find((n) => n.node === ref.name);
    return h('a', {href: nodeLink(node ? node.key : `node/${ref.name}`)}, ref.name);
  }
  if (ref.kind === 'NodeClaim') return h('a', {href: nodeLink(ref.name)}, ref.name);
  if (ref.kind === 'NodePool') return h('a', {href: '#/pools'}, ref.name);
  return h('span', {}, ref.name);
}

// answer shows what explain says about an object, without facts that the page shows elsewhere.
/** @param {api.Explanation} a @param {ui.Store} store @param {string[]} [shown] */
export function answer(a, store, shown = []) {
  const {why = [], change = [], history = []} = a;
  const said = why.length === 1 && !why[0].because && a.verdict.includes(why[0].text); // the verdict is all there is
  const left = (a.facts || []).filter((f) => !shown.includes(f.name));
  return h('div', {class: 'answer'},
    h('p', {class: 'verdict'}, a.verdict),
    change.length > 0 && h('section', {class: 'flip', 'aria-label': 'What would change this'},
      h('h3', {}, 'What would change this'),
      h('ul', {}, change.map((c) => h('li', {}, c.text)))),
    why.length > 0 && !said && h('section', {}, h('h3', {}, 'Why'), tree(why)),
    a.nearest && h('section', {}, h('h3', {}, 'Nearest alternative'), h('p', {}, a.nearest.text)),
    (a.tried || []).length > 0 && h('section', {}, h('h3', {}, 'What was tried'), tree(a.tried)),
    left.length > 0 && h('section', {}, h('h3', {}, 'Facts'), facts(left.map((f) => [f.name, f.value]))),
    about(history, store));
}

// about shows decisions about something.
/** @param {api.Entry[]} list @param {ui.Store} store */
export function about(list, store) {
  return list.length > 0 && h('section', {}, h('h3', {}, 'Decisions about it'), h('ol', {class: 'feed'}, list.map((e) => entry(e, store))));
}

// detail shows what the objects behind a node say: labels, taints and conditions.
/** @param {api.NodeDetail} d */
export function detail(d) {
  const {taints = [], conditions = []} = d;
  const labels = Object.entries(d.labels || {}).sort();
  return [
    taints.length > 0 && h('section', {}, h('h3', {}, 'Taints'), h('ul', {class: 'code-list'}, taints.map((t) => h('li', {}, h('code', {}, t))))),
    conditions.length > 0 && h('section', {}, h('h3', {}, 'Conditions'), h('ul', {class: 'code-list'}, conditions.map((c) => h('li', {},
      h('code', {}, `${c.of} ${c.type}=${c.status}`), c.since && h('span', {class: 'quiet'}, ` since ${moment(c.since)}`),
      (c.reason || c.message) && h('div', {class: 'quiet small'}, [c.reason, c.message].filter(Boolean).join(': ')))))),
    labels.length > 0 && h('section', {}, h('h3', {}, 'Labels'), h('ul', {class: 'code-list'}, labels.map(([k, v]) => h('li', {}, h('code', {}, `${k}=${v}`))))),
  ];
}

// facts is a list of names with values.
/** @param {[string, ui.Child][]} pairs */
export function facts(pairs) {
  return h('dl', {class: 'facts'}, pairs.filter(([, v]) => v !== '' && v !== undefined && v !== null && v !== false).map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));
}

// money is what a decision saves or costs; nodes for pending pods are not held against it.
/** @param {api.Entry} e @param {number} saves */
function money(e, saves) {
  const amount = hourly(Math.abs(saves));
  if (saves > 0) return h('span', {class: 'gain'}, `saves ${amount}`);
  return h('span', {class: e.kind === 'Plan' || e.kind === 'Launch' ? 'quiet' : 'loss'}, `adds ${amount}`);
}

/** @type {Record<string, string>} */
const outcomes = {Open: 'under way', Done: 'done', Failed: 'failed'};

// entry is a decision in a list; it opens to show everything.
/** @param {api.Entry} e @param {ui.Store} store @param {boolean} [open] */
export function entry(e, store, open) {
  const inside = h('div', {class: 'entry-more'});
  /** @type {HTMLDetailsElement} */
  const details = h('details', {
    class: 'entry', open, data: {kind: e.kind, id: String(e.id)},
    ontoggle: () => {
      if (details.open && inside.childElementCount === 0) inside.append(...more(e, store));
    },
  },
  h('summary', {},
    h('time', {datetime: e.at, title: moment(e.at)}, time(e.at)),
    badge(e.kind),
    h('span', {class: 'entry-text', title: e.summary}, brief(e.summary)),
    h('span', {class: 'entry-end'},
      e.savesPerHour ? money(e, e.savesPerHour) : null,
      outcomes[e.outcome] && badge(outcomes[e.outcome], e.outcome))),
  inside);
  if (open) inside.append(...more(e, store));
  return h('li', {data: {id: String(e.id)}}, details);
}

/** @param {api.Entry} e @param {ui.Store} store */
function more(e, store) {
  const refs = e.about || [];
  return [
    facts([
      ['Reason', e.reason], ['Result', e.result], ['Pods that restart', e.evicts || null],
      ['About', refs.length > 0 && h('span', {class: 'links'}, refs.slice(0, 12).map((r) => [h('span', {class: 'quiet'}, `${r.kind} `), link(r, store), ' ']), refs.length > 12 ? `and ${refs.length - 12} more` : null)],
      ['Decision', h('a', {href: `#/decision/${e.id}`}, `number ${e.id}`)],
      ['Recording', e.recorded && h('button', {type: 'button', class: 'link', onclick: () => download(e.id, store)}, 'Download, for karpenter replay')],
    ]),
    nodes('Adds', e.add || [], store),
    nodes('Removes', e.remove || [], store),
    tree(e.why),
  ].filter((el) => el !== null);
}

/** @param {string} title @param {api.Node[]} list @param {ui.Store} store */
function nodes(title, list, store) {
  if (list.length === 0) return null;
  return h('section', {class: 'nodes-of'}, h('h3', {}, title), h('ul', {}, list.slice(0, 50).map((n) => h('li', {},
    n.claim ? link({kind: 'NodeClaim', name: n.claim}, store) : n.node ? link({kind: 'Node', name: n.node}, store) : null, ' ',
    [n.instanceType, n.zone, n.capacityType].filter(Boolean).join(' · '), n.pricePerHour ? ` · ${hourly(n.pricePerHour)}` : '', podsOf(n.pods || [])))));
}

/** @param {string[]} pods */
function podsOf(pods) {
  return pods.length > 0 && h('details', {class: 'pods-of'}, h('summary', {}, plural(pods.length, 'pod')),
    h('ul', {}, pods.map((p) => h('li', {}, h('a', {href: podLink(p)}, splitPod(p)[1])))));
}

// download saves what a decision was made from; a plain link would not carry the token.
/** @param {number} id @param {ui.Store} store */
async function download(id, store) {
  const made = URL.createObjectURL(await (await store.get(`decisions/${id}/recording`)).blob());
  const a = h('a', {href: made, download: `decision-${id}.json`});
  a.click();
  URL.revokeObjectURL(made);
}
