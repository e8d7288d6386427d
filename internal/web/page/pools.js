// Pools: what they may have, what they have, and when their nodes may be disrupted.

import {badge, bar, fill, h} from './dom.js';
import {count, duration, hourly, percent, plural, seconds, share} from './format.js';
import {facts} from './reasons.js';
import {aborted, messageOf} from './store.js';

const dayName = new Intl.DateTimeFormat('en-GB', {weekday: 'short', day: 'numeric', timeZone: 'UTC'});
const at = new Intl.DateTimeFormat('en-GB', {weekday: 'short', hour: '2-digit', minute: '2-digit', timeZone: 'UTC'});
const DAY = 86400;

/** @typedef {{from: number, until: number}} Range in seconds since 1970 */

/** @param {number} t */
const moment = (t) => at.format(new Date(t * 1000));

// strip shows spans of the next days.
/** @param {ui.Stretch[]} spans @param {Range} range */
function strip(spans, {from, until}) {
  const x = (/** @type {number} */ t) => 100 * (t - from) / (until - from);
  return h('div', {class: 'strip', role: 'img', 'aria-label': spans.slice(0, 20).map((s) => `${moment(s.from)} to ${moment(s.to)}: ${s.text}`).join('; ') || 'never'},
    days(from, until).map((t) => h('span', {class: 'strip-day', left: x(t)})),
    spans.map((s) => h('span', {class: 'strip-span', data: {kind: s.kind}, left: x(s.from), width: x(s.to) - x(s.from), title: `${moment(s.from)} to ${moment(s.to)} UTC: ${s.text}`},
      x(s.to) - x(s.from) > 2.5 ? h('span', {}, s.short || '') : null)));
}

/** @param {number} from @param {number} until */
function days(from, until) {
  const out = [];
  for (let t = Math.ceil(from / DAY) * DAY; t < until; t += DAY) out.push(t);
  return out;
}

/** @param {Range} range */
function scale({from, until}) {
  const x = (/** @type {number} */ t) => 100 * (t - from) / (until - from);
  return h('div', {class: 'strip-scale', 'aria-hidden': 'true'}, h('span', {left: 0}, 'now'), days(from, until).filter((t) => x(t) > 5).map((t) => h('span', {left: x(t)}, dayName.format(new Date(t * 1000)))));
}

/** @param {api.BudgetModel} b */
function budgetText(b) {
  const what = (b.reasons || []).join(', ') || 'any reason';
  const most = `${b.nodes}${b.nodes.endsWith('%') ? ' of the' : ''} nodes for ${what}`;
  return b.schedule ? `${most}, at ${b.schedule} for ${duration(b.duration || '')}` : `${most}, always`;
}

// evicted says what consolidation did to the pods of a pool within the last hour.
/** @param {api.EvictionModel} [e] */
function evicted(e) {
  if (!e || e.pods === 0) return 'no pod within the last hour';
  const {perPod = 0, savesPerHourEach = 0} = e;
  const each = savesPerHourEach > 0 ? `; ${hourly(savesPerHourEach)} saved by each` : '';
  return `${plural(e.pods, 'pod')} within the last hour${perPod > 0 ? `, ${perPod.toFixed(2)} for each pod of the pool` : ''}${each}`;
}

/** @param {api.PoolModel} p @param {api.Portion | undefined} use @param {Range} range */
function pool(p, use, range) {
  const {limits = [], requirements = [], taints = []} = p;
  const allowed = (/** @type {number} */ n) => (n < 0 ? 'as many as there are' : plural(n, 'node'));
  return h('section', {class: 'card', 'aria-labelledby': `pool-${p.name}`},
    h('div', {class: 'pool-head'}, h('h2', {id: `pool-${p.name}`}, p.name), p.ready === 'True' ? badge('ready', 'good') : badge(p.ready === 'False' ? 'not ready' : 'readiness unknown', p.ready === 'False' ? 'bad' : 'neutral'),
      p.static && badge(`static: ${count(p.nodes)} of ${count(p.replicas || 0)}`, p.nodes === (p.replicas || 0) ? 'good' : 'neutral'), h('span', {class: 'pool-cost num'}, hourly(use?.pricePerHour))),
    p.trouble && h('p', {class: 'trouble'}, p.trouble),
    h('div', {class: 'pool-body'},
      h('div', {},
        facts([
          ['Nodes', `${count(p.nodes)}${p.static ? ` of ${count(p.replicas || 0)}` : ''}${p.deleting > 0 ? `, and ${p.deleting} deleting` : ''}`],
          ['CPU requested', use && use.nodes > 0 && [bar(share(use.cpuMillicores), 'CPU'), ' ', percent(share(use.cpuMillicores))]],
          ['Memory requested', use && use.nodes > 0 && [bar(share(use.memoryBytes), 'Memory'), ' ', percent(share(use.memoryBytes))]],
          ['Weight', p.weight || null], ['Class', p.class], ['Types it may launch', count(p.instanceTypes)],
          ['Consolidation', p.static ? 'none: the pool is static' : `${p.policy}, after ${duration(p.consolidateAfter)}`], ['Expires after', duration(p.expireAfter)],
          ['Evicted for cost', evicted(p.evictions)],
        ])),
      h('div', {},
        h('h3', {}, 'Limits'),
        limits.length === 0 ? h('p', {class: 'quiet'}, 'No limit.') : h('ul', {class: 'limits'}, limits.map((l) => h('li', {}, h('span', {}, l.resource), bar(l.share, `${percent(l.share)} of the limit`), h('span', {class: 'num'}, `${l.used} of ${l.max}`)))),
        requirements.length > 0 && [h('h3', {}, 'Requirements'), h('ul', {class: 'code-list'}, requirements.map((r) => h('li', {}, h('code', {}, r))))],
        taints.length > 0 && [h('h3', {}, 'Taints'), h('ul', {class: 'code-list'}, taints.map((t) => h('li', {}, h('code', {}, t))))])),
    h('h3', {}, 'Nodes that may be disrupted at once, over the next seven days (UTC)'),
    h('div', {class: 'strips'},
      p.allowed.map((a) => h('div', {class: 'strip-row'}, h('span', {class: 'strip-name'}, a.reason),
        strip(a.spans.map((s) => ({from: seconds(s.from), to: seconds(s.to), kind: s.nodes === 0 ? 'none' : s.nodes < 0 ? 'free' : 'some', text: allowed(s.nodes), short: s.nodes < 0 ? 'no cap' : String(s.nodes)})), range))),
      p.budgets.map((b) => h('div', {class: 'strip-row budget'}, h('span', {class: 'strip-name', title: budgetText(b)}, 'Budget: ', budgetText(b)),
        b.trouble ? h('p', {class: 'trouble'}, b.trouble) : strip(b.windows.map((w) => ({from: seconds(w.from), to: seconds(w.to), kind: 'window', text: `holds: ${budgetText(b)}`})), range))),
      h('div', {class: 'strip-row'}, h('span', {class: 'strip-name'}), scale(range))));
}

/** @param {ui.Context} context @returns {ui.View} */
export function pools({store}) {
  const box = h('div', {class: 'pools'}, h('p', {class: 'quiet'}, 'Loading…'));
  const stop = new AbortController();
  let waiting = 0;

  async function load() {
    try {
      /** @type {api.PoolList} */
      const got = await store.json('pools', stop.signal);
      const range = {from: seconds(got.at), until: seconds(got.until)};
      fill(box, got.pools.length === 0 ? h('p', {class: 'quiet'}, 'There is no NodePool: nothing can be launched.') : got.pools.map((p) => pool(p, store.totals.pools.find((t) => t.name === p.name), range)));
    } catch (error) {
      if (!aborted(error)) fill(box, h('p', {class: 'trouble'}, messageOf(error)));
    }
  }

  load();
  return {
    title: 'Pools',
    element: h('div', {class: 'page'}, h('div', {class: 'head'}, h('h1', {}, 'Pools'), h('p', {class: 'quiet'}, 'What each NodePool may launch and has, and how many of its nodes may be disrupted voluntarily at the same time.')), box),
    update(change) {
      if (!change.totals || waiting) return;
      waiting = setTimeout(() => { waiting = 0; load(); }, 3000);
    },
    close() {
      stop.abort();
      clearTimeout(waiting);
    },
  };
}
