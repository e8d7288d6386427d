// The first answer, asked for while the rest of the page is still on its way. Addresses are relative to the page, so that it
// works under any path.

export const TOKEN = 'karpenter-token';

/** @param {string} path @param {AbortSignal} [signal] */
export function ask(path, signal) {
  const token = sessionStorage.getItem(TOKEN);
  return fetch(`api/v1/${path}`, {cache: 'no-store', signal, headers: token ? {Authorization: `Bearer ${token}`} : {}});
}

/** @type {Promise<Response> | null} */
let first = ask('fleet');
first.catch(() => {}); // whoever takes it is told

// takeFirst hands the first answer out, once.
export function takeFirst() {
  const taken = first;
  first = null;
  return taken;
}
