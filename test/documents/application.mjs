/** The application that the fragments belong to: `application.mjs` beside each program. */

import { setImmediate as turn } from 'node:timers/promises';

/** @returns {Promise<string[]>} */
export const read = async () => ['first', 'second'];
/** @param {unknown} [_value] */
export const write = async (_value) => {
  await turn();
};
/** @param {string[]} accounts */
export const update = (accounts) => accounts.map((account) => account.toUpperCase());
/** @param {unknown} content */
export const parse = (content) => JSON.parse(String(content));
export const work = () => turn();
export const cleanUp = work;
export const print = work;
export const transfer = work;
export const train = work;
export const importEverything = work;
/** @param {string} _statement */
export const select = async (_statement) => [{ id: 1 }];

/** Works until the signal is aborted, or once. @param {{ signal: AbortSignal }} options */
export const lead = async ({ signal }) => {
  if (!signal.aborted) await turn();
};
