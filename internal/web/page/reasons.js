// Reasons and answers: the same tree wherever it is shown.

import {badge, h} from './dom.js';
import {brief, hourly, moment, nodeLink, podLink, splitPod, time} from './format.js';

// tree shows reasons with what they rest on; from the third level on it is folded.
export function tree(reasons, depth = 0) {
  if (!reasons || reasons.length === 0) return null;
  return h('ul', {class: 'reasons'}, reasons.map((r) => {
    const label = [h('span', {class: 'reason-text'}, r.text), r.of ? h('span', {class: 'reason-count'}, `${r.count || 0} of ${r.of}`) : null, h('span', {class: 'reason-code', title: 'kind of reason'}, r.code)];
    if (!r.because || r.because.length === 0) return h('li', {class: 'reason'}, label);
    return h('li', {}, h('details', {open: depth < 2}, h('summary', {class: 'reason'}, label), tree(r.because, depth + 1)));
  }));
}

// link is a way to an object.
export function link(ref, store) {
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
export function answer(a, store, shown = []) {
  const said = (a.why || []).length === 1 && !a.why[0].because && a.verdict.includes(a.why[0].text); // the verdict is all there is
  const left = (a.facts || []).filter((f) => !shown.includes(f.name));
  return h('div', {class: 'answer'},
    h('p', {class: 'verdict'}, a.verdict),
    (a.change || []).length > 0 && h('section', {class: 'flip', 'aria-label': 'What would change this'},
      h('h3', {}, 'What would change this'),
      h('ul', {}, a.change.map((c) => h('li', {}, c.text)))),
    (a.why || []).length > 0 && !said && h('section', {}, h('h3', {}, 'Why'), tree(a.why)),
    a.nearest && h('section', {}, h('h3', {}, 'Nearest alternative'), h('p', {}, a.nearest.text)),
    (a.tried || []).length > 0 && h('section', {}, h('h3', {}, 'What was tried'), tree(a.tried)),
    left.length > 0 && h('section', {}, h('h3', {}, 'Facts'), facts(left.map((f) => [f.name, f.value]))),
    (a.history || []).length > 0 && h('section', {}, h('h3', {}, 'Decisions about it'), h('ol', {class: 'feed'}, a.history.map((e) => entry(e, store)))));
}

// detail shows what the objects behind a node say: labels, taints and conditions.
export function detail(d) {
  const labels = Object.entries(d.labels || {}).sort();
  return [
    (d.taints || []).length > 0 && h('section', {}, h('h3', {}, 'Taints'), h('ul', {class: 'code-list'}, d.taints.map((t) => h('li', {}, h('code', {}, t))))),
    (d.conditions || []).length > 0 && h('section', {}, h('h3', {}, 'Conditions'), h('ul', {class: 'code-list'}, d.conditions.map((c) => h('li', {},
      h('code', {}, `${c.of} ${c.type}=${c.status}`), c.since && h('span', {class: 'quiet'}, ` since ${moment(c.since)}`),
      (c.reason || c.message) && h('div', {class: 'quiet small'}, [c.reason, c.message].filter(Boolean).join(': ')))))),
    labels.length > 0 && h('section', {}, h('h3', {}, 'Labels'), h('ul', {class: 'code-list'}, labels.map(([k, v]) => h('li', {}, h('code', {}, `${k}=${v}`))))),
  ];
}

// facts is a list of names with values.
export function facts(pairs) {
  return h('dl', {class: 'facts'}, pairs.filter(([, v]) => v !== '' && v !== undefined && v !== null && v !== false).map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));
}

// money is what a decision saves or costs; nodes for pods that wait are not held against it.
function money(e) {
  const amount = hourly(Math.abs(e.savesPerHour));
  if (e.savesPerHour > 0) return h('span', {class: 'gain'}, `saves ${amount}`);
  return h('span', {class: e.kind === 'Plan' || e.kind === 'Launch' ? 'quiet' : 'loss'}, `adds ${amount}`);
}

const outcomes = {Open: 'under way', Done: 'done', Failed: 'failed'};

// entry is a decision in a list; it opens to show everything.
export function entry(e, store, open) {
  const inside = h('div', {class: 'entry-more'});
  const details = h('details', {
    class: 'entry', open: Boolean(open), data: {kind: e.kind, id: String(e.id)},
    ontoggle: () => {
      if (details.open && inside.childElementCount === 0) inside.append(...more(e, store));
    },
  },
  h('summary', {},
    h('time', {datetime: e.at, title: moment(e.at)}, time(e.at)),
    badge(e.kind),
    h('span', {class: 'entry-text', title: e.summary}, brief(e.summary)),
    h('span', {class: 'entry-end'},
      e.savesPerHour ? money(e) : null,
      outcomes[e.outcome] && badge(outcomes[e.outcome], e.outcome))),
  inside);
  if (open) inside.append(...more(e, store));
  return h('li', {data: {id: String(e.id)}}, details);
}

function more(e, store) {
  return [
    facts([
      ['Reason', e.reason], ['Result', e.result], ['Pods that restart', e.evicts || null],
      ['About', (e.about || []).length > 0 && h('span', {class: 'links'}, e.about.slice(0, 12).map((r) => [h('span', {class: 'quiet'}, `${r.kind} `), link(r, store), ' ']), e.about.length > 12 ? `and ${e.about.length - 12} more` : null)],
      ['Decision', h('a', {href: `#/decision/${e.id}`}, `number ${e.id}`)],
      ['Recording', e.recorded && h('button', {type: 'button', class: 'link', onclick: () => download(e.id, store)}, 'Download, for karpenter replay')],
    ]),
    machines('Adds', e.add, store),
    machines('Removes', e.remove, store),
    tree(e.why),
  ].filter(Boolean);
}

function machines(title, list, store) {
  if (!list || list.length === 0) return null;
  return h('section', {class: 'machines'}, h('h3', {}, title), h('ul', {}, list.slice(0, 50).map((m) => h('li', {},
    m.claim ? link({kind: 'NodeClaim', name: m.claim}, store) : m.node ? link({kind: 'Node', name: m.node}, store) : null, ' ',
    [m.instanceType, m.zone, m.capacityType].filter(Boolean).join(' · '), m.pricePerHour ? ` · ${hourly(m.pricePerHour)}` : '',
    (m.pods || []).length > 0 && h('details', {class: 'pods-of'}, h('summary', {}, `${m.pods.length} ${m.pods.length === 1 ? 'pod' : 'pods'}`),
      h('ul', {}, m.pods.map((p) => h('li', {}, h('a', {href: podLink(p)}, splitPod(p)[1])))))))));
}

// download saves what a decision was made from; a plain link would not carry the token.
async function download(id, store) {
  const made = URL.createObjectURL(await (await store.get(`decisions/${id}/recording`)).blob());
  const a = h('a', {href: made, download: `decision-${id}.json`});
  a.click();
  URL.revokeObjectURL(made);
}
