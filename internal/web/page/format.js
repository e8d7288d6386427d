// How figures are written, everywhere the same.

const HOURS = 730; // in a month

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const one = new Intl.NumberFormat('en', {maximumFractionDigits: 1});
const cents = new Intl.NumberFormat('en', {minimumFractionDigits: 2, maximumFractionDigits: 2});

export const count = (n) => whole.format(n || 0);

export function plural(n, word, words) {
  return `${count(n)} ${n === 1 ? word : words || `${word}s`}`;
}

// hourly writes $/h: four digits after the point for what is small, two for what is not.
export function hourly(price) {
  const p = Math.abs(price || 0);
  const sign = price < 0 ? '−' : '';
  return `${sign}$${p < 100 ? p.toFixed(4) : cents.format(p)}/h`;
}

export function dollars(sum) {
  const p = Math.abs(sum || 0);
  const sign = sum < 0 ? '−' : '';
  return `${sign}$${p >= 1000 ? whole.format(p) : cents.format(p)}`;
}

export const monthly = (price) => `${dollars((price || 0) * HOURS)} a month`;

export const percent = (part) => `${whole.format((part || 0) * 100)}%`;

export function cores(milli) {
  return milli >= 10000 ? whole.format(milli / 1000) : `${+(milli / 1000).toFixed(2)}`;
}

export function memory(bytes) {
  const mebi = bytes / 1024 / 1024;
  if (mebi >= 1024 * 1024) return `${one.format(mebi / 1024 / 1024)} Ti`;
  if (mebi >= 1024) return `${mebi >= 102400 ? whole.format(mebi / 1024) : one.format(mebi / 1024)} Gi`;
  return `${whole.format(mebi)} Mi`;
}

export function span(seconds) {
  const x = Math.max(0, Math.round(seconds));
  if (x < 60) return `${x} s`;
  if (x < 3600) return `${Math.floor(x / 60)} min`;
  if (x < 86400) return `${Math.floor(x / 3600)} h ${Math.floor(x % 3600 / 60)} min`;
  return `${Math.floor(x / 86400)} d ${Math.floor(x % 86400 / 3600)} h`;
}

// share is the part of an amount that is requested.
export const share = (amount) => (amount && amount.allocatable > 0 ? amount.requested / amount.allocatable : 0);

// seconds is a moment of a document in seconds since 1970.
export const seconds = (moment) => (moment ? Date.parse(moment) / 1000 : 0);

const clock = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const day = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short'});
const full = new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'medium'});

export function time(date) {
  const d = new Date(date);
  return new Date().toDateString() === d.toDateString() ? clock.format(d) : `${day.format(d)} ${clock.format(d).slice(0, 5)}`;
}

// short is the hour and minute alone.
export const short = (date) => clock.format(new Date(date)).slice(0, 5);

export const moment = (date) => full.format(new Date(date));

// brief drops from names of nodes what a reader of one cluster does not need.
export const brief = (words) => words.replace(/\.(?:[a-z0-9-]+\.)?(?:ec2|compute)\.internal/g, '');

export const shortName = (node) => brief(node.node || node.claim || node.key);

// duration drops the zeros of 8h0m0s.
export const duration = (words) => words.replace(/(\d[hm])(?:0m)?0s$/, '$1');

export const splitPod = (full) => {
  const i = full.indexOf('/');
  return [full.slice(0, i), full.slice(i + 1)];
};

export const nodeLink = (key) => `#/node/${encodeURIComponent(key)}`;
export const podLink = (full) => `#/pod/${full.split('/').map(encodeURIComponent).join('/')}`;
