import { setImmediate as turn } from 'node:timers/promises';
let session = { access: 'old', refresh: 'r1', expires: 0 };
let refreshes = 0;
const readSession = async () => session;
const writeSession = async (next = session) => {
  session = next;
};
const refreshAt = async (token = '', options = { signal: new AbortController().signal }) => {
  refreshes++;
  await turn();
  if (token !== 'r1' || options.signal.aborted) throw new Error('used twice');
  return { access: 'new', refresh: 'r2', expires: Date.now() + 3_600_000 };
};
// …
const tokens = await Promise.all([accessToken(), accessToken(), accessToken()]);
console.log(refreshes === 1 ? 'one refresh:' : refreshes, ...tokens);
