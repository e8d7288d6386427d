// The cluster as the controller sees it, kept up to date by the stream.

import {TOKEN, ask, takeFirst} from './early.js';
import {seconds} from './format.js';

const POD = 4; // entries for each pod in a node's list

// nothing stands for totals until they have come.
const none = {requested: 0, allocatable: 0};
/** @type {api.Totals} */
const nothing = {
  nodes: 0, starting: 0, deleting: 0, notReady: 0, spot: 0, unpriced: 0, pricePerHour: 0, pricePerMonth: 0, pendingPods: 0,
  cpuMillicores: none, memoryBytes: none, podSlots: none, capacityTypes: [], pools: [],
};

class Denied extends Error {}

// aborted says that nobody waits for the answer any more.
/** @param {unknown} error */
export const aborted = (error) => error instanceof Error && error.name === 'AbortError';

// messageOf is what went wrong, in words.
/** @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

// seen waits until the page is in front of somebody.
/** @returns {Promise<void>} */
function seen() {
  return new Promise((done) => {
    const look = () => {
      if (document.hidden) document.addEventListener('visibilitychange', look, {once: true});
      else done();
    };
    look();
  });
}

export class Store extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, ui.Node>} */
    this.nodes = new Map();
    /** @type {ui.Sections} */
    this.sections = {};
    this.run = '';
    this.version = 0;
    this.skew = 0; // what the controller's clock is ahead of ours, in milliseconds
    this.received = 0; // when the stream last said something, on the page's clock
  }

  // now is the controller's time, in seconds.
  now() { return (Date.now() + this.skew) / 1000; }

  get totals() { return this.sections.totals || nothing; }
  get pending() { return this.sections.pending || []; }
  /** @returns {api.Next} */
  get next() { return this.sections.next || {}; }
  /** @returns {Partial<api.About>} */
  get about() { return this.sections.about || {}; }
  get problems() { return this.sections.problems || []; }

  // saved is what moves have brought so far, in dollars.
  get saved() {
    const s = this.sections.savings;
    if (!s) return 0;
    return s.dollars + (s.at ? s.savesPerHour * Math.max(0, this.now() - seconds(s.at)) / 3600 : 0);
  }

  /** @param {string} path @param {AbortSignal} [signal] */
  async get(path, signal) {
    const response = await ((path === 'fleet' && takeFirst()) || ask(path, signal));
    if (response.ok) return response;
    const said = await response.json().catch(() => ({}));
    /** @type {string} */
    const text = said.error || `the controller answered ${response.status}`;
    if (response.status === 401 || response.status === 403) throw new Denied(text);
    throw new Error(text);
  }

  // json is a document; whoever asks says of which kind.
  /** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
  async json(path, signal) { return (await this.get(path, signal)).json(); }

  /** @param {string} token */
  signIn(token) { sessionStorage.setItem(TOKEN, token.trim()); }

  signOut() { sessionStorage.removeItem(TOKEN); }

  get signedIn() { return Boolean(sessionStorage.getItem(TOKEN)); }

  // start loads everything, then follows; it goes on until the page is closed, or the controller wants a token.
  async start() {
    for (let failures = 0, again = false; ; again = true) {
      let why = '';
      try {
        if (!this.run) this.apply(await this.json('fleet'));
        await seen();
        this.tell('line', {state: 'live', text: 'Live'});
        failures = 0;
        await this.follow(again);
      } catch (error) {
        if (aborted(error)) continue; // nobody looks any more
        if (error instanceof Denied) {
          this.tell('denied', {text: error.message});
          return;
        }
        failures++;
        why = messageOf(error);
      }
      this.tell('line', {state: 'lost', text: 'Not connected, trying again', why});
      const pause = Math.min(5000, 300 * 2 ** failures);
      await new Promise((done) => { setTimeout(done, pause); });
    }
  }

  // follow takes in what changes for as long as somebody looks: a browser keeps few connections to one host, and tabs behind
  // others need none. again says that decisions may have been missed.
  /** @param {boolean} again */
  async follow(again) {
    const stop = new AbortController();
    document.addEventListener('visibilitychange', () => stop.abort(), {once: true, signal: stop.signal});
    const response = await this.get(`stream?run=${encodeURIComponent(this.run)}&version=${this.version}`, stop.signal);
    if (again) this.tell('missed', {});
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      this.received = performance.now();
      const events = (rest + value).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) this.event(event);
    }
  }

  // event takes in an event of the stream.
  /** @param {string} block */
  event(block) {
    let name = '';
    let data = '';
    for (const line of block.split('\n')) {
      if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (name === 'fleet') this.apply(JSON.parse(data));
    else if (name === 'decision') this.tell('decision', JSON.parse(data).decision);
    else if (name === 'missed') this.tell('missed', {});
  }

  // apply takes in the whole model, or what has changed of it.
  /** @param {api.LiveFleet} m */
  apply(m) {
    if (m.full) this.nodes = new Map();
    for (const key of m.gone || []) this.nodes.delete(key);
    for (const node of m.nodes) {
      this.nodes.set(node.key, {...node, count: node.podRows.length / POD, daemons: node.podRows.some((x, i) => i % POD === POD - 1 && x & DAEMON)});
    }
    /** @type {ui.Change} */
    const changed = {nodes: m.full || m.nodes.length > 0 || (m.gone || []).length > 0, full: Boolean(m.full)};
    const {about, totals, savings, pending, next, problems} = m;
    for (const [name, section] of Object.entries({about, totals, savings, pending, next, problems})) {
      if (section === undefined) continue;
      Object.assign(this.sections, {[name]: section});
      Object.assign(changed, {[name]: true});
    }
    this.run = m.run;
    this.version = m.version;
    this.skew = Date.parse(m.at) - Date.now();
    this.tell('change', changed);
  }

  // tell lets those know who have asked for it by on.
  /**
   * @template {keyof ui.Events} K
   * @param {K} name
   * @param {ui.Events[K]} detail
   */
  tell(name, detail) { this.dispatchEvent(new CustomEvent(name, {detail})); }

  /**
   * @template {keyof ui.Events} K
   * @param {K} name
   * @param {(detail: ui.Events[K]) => void} then
   */
  on(name, then) {
    this.addEventListener(name, (event) => { if (event instanceof CustomEvent) then(event.detail); });
  }

  // podsOf lists a node's pods as objects.
  /** @param {ui.Node} node */
  podsOf(node) {
    /** @type {ui.Pod[]} */
    const out = [];
    for (let i = 0; i < node.podRows.length; i += POD) {
      out.push({name: node.podRows[i], cpu: node.podRows[i + 1], memory: node.podRows[i + 2], flags: node.podRows[i + 3]});
    }
    return out;
  }

  // nodeOfPod finds where a pod is.
  /** @param {string} full */
  nodeOfPod(full) {
    for (const node of this.nodes.values()) {
      for (let i = 0; i < node.podRows.length; i += POD) if (node.podRows[i] === full) return node;
    }
    return null;
  }

  // find lists nodes and pods whose names contain a text, a few of each.
  /** @param {string} words @param {number} most */
  find(words, most) {
    /** @type {ui.Found[]} */
    const out = [];
    for (const node of this.nodes.values()) {
      if (out.length >= most / 2) break;
      if ((node.node || '').includes(words) || (node.claim || '').includes(words)) out.push({kind: 'node', node});
    }
    for (const group of this.pending) {
      for (const name of group.pods) if (out.length < most && name.includes(words)) out.push({kind: 'pod', name});
    }
    for (const node of this.nodes.values()) {
      for (let i = 0; i < node.podRows.length && out.length < most; i += POD) {
        if (node.podRows[i].includes(words)) out.push({kind: 'pod', name: node.podRows[i]});
      }
      if (out.length >= most) break;
    }
    return out;
  }
}

export const DAEMON = 1;
export const TERMINATING = 2;
export const FIXED = 4;
