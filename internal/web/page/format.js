// How figures are written, everywhere the same.

const HOURS = 730; // in a month

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const one = new Intl.NumberFormat('en', {maximumFractionDigits: 1});
const cents = new Intl.NumberFormat('en', {minimumFractionDigits: 2, maximumFractionDigits: 2});

/** @param {number} [n] */
export const count = (n) => whole.format(n || 0);

/** @param {number} n @param {string} word @param {string} [words] */
export function plural(n, word, words) {
  return `${count(n)} ${n === 1 ? word : words || `${word}s`}`;
}

// hourly writes $/h: four digits after the point for what is small, two for what is not.
/** @param {number} [price] */
export function hourly(price = 0) {
  const p = Math.abs(price);
  const sign = price < 0 ? '−' : '';
  return `${sign}$${p < 100 ? p.toFixed(4) : cents.format(p)}/h`;
}

/** @param {number} sum */
export function dollars(sum) {
  const p = Math.abs(sum);
  const sign = sum < 0 ? '−' : '';
  return `${sign}$${p >= 1000 ? whole.format(p) : cents.format(p)}`;
}

/** @param {number} [price] */
export const monthly = (price = 0) => `${dollars(price * HOURS)} a month`;

/** @param {number} part */
export const percent = (part) => `${whole.format(part * 100)}%`;

/** @param {number} milli */
export function cores(milli) {
  return milli >= 10000 ? whole.format(milli / 1000) : `${+(milli / 1000).toFixed(2)}`;
}

/** @param {number} bytes */
export function memory(bytes) {
  const mebi = bytes / 1024 / 1024;
  if (mebi >= 1024 * 1024) return `${one.format(mebi / 1024 / 1024)} Ti`;
  if (mebi >= 1024) return `${mebi >= 102400 ? whole.format(mebi / 1024) : one.format(mebi / 1024)} Gi`;
  return `${whole.format(mebi)} Mi`;
}

/** @param {number} length in seconds */
export function span(length) {
  const x = Math.max(0, Math.round(length));
  if (x < 60) return `${x} s`;
  if (x < 3600) return `${Math.floor(x / 60)} min`;
  if (x < 86400) return `${Math.floor(x / 3600)} h ${Math.floor(x % 3600 / 60)} min`;
  return `${Math.floor(x / 86400)} d ${Math.floor(x % 86400 / 3600)} h`;
}

// share is the part of an amount that is requested.
/** @param {api.Amount} [amount] */
export const share = (amount) => (amount && amount.allocatable > 0 ? amount.requested / amount.allocatable : 0);

// seconds is a moment of a document in seconds since 1970.
/** @param {string} [date] */
export const seconds = (date) => (date ? Date.parse(date) / 1000 : 0);

const clock = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const day = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short'});
const full = new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'medium'});

/** @param {string | number} date */
export function time(date) {
  const d = new Date(date);
  return new Date().toDateString() === d.toDateString() ? clock.format(d) : `${day.format(d)} ${clock.format(d).slice(0, 5)}`;
}

// short is the hour and minute alone.
/** @param {number} date */
export const short = (date) => clock.format(new Date(date)).slice(0, 5);

/** @param {string} date */
export const moment = (date) => full.format(new Date(date));

// brief drops from names of nodes what a reader of one cluster does not need.
/** @param {string} words */
export const brief = (words) => words.replace(/(?:\.[a-z0-9-]+)*\.internal\b/g, '');

/** @param {{node?: string, claim?: string, key: string}} node */
export const shortName = (node) => brief(node.node || node.claim || node.key);

// duration drops the zeros of 8h0m0s.
/** @param {string} words */
export const duration = (words) => words.replace(/(\d[hm])(?:0m)?0s$/, '$1');

// splitPod takes namespace/name apart.
/** @param {string} pod */
export const splitPod = (pod) => {
  const i = pod.indexOf('/');
  return [pod.slice(0, i), pod.slice(i + 1)];
};

/** @param {string} key */
export const nodeLink = (key) => `#/node/${encodeURIComponent(key)}`;
/** @param {string} pod */
export const podLink = (pod) => `#/pod/${pod.split('/').map(encodeURIComponent).join('/')}`;
