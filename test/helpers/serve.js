'use strict';

const { Mutex } = require('../../lib/index.js');
const { chosen } = require('../conformance/scopes.js');

/**
 * Carries out what a RemoteAgent (remote.js) asks for.
 * @param locks a lock manager
 * @param post sends a message to the RemoteAgent
 * @returns functions by the name of their command, to be called with its message
 */
function serve(locks, post) {
  const requests = new Map();
  const report = (number, event, value) => post({ number, event, value });

  async function request({ number, name, options }) {
    const controller = new AbortController();
    const given = options.signal ? { ...options, signal: controller.signal } : options;
    locks
      .request(name, given, (lock) => {
        report(number, 'granted', lock && { name: lock.name, mode: lock.mode, token: lock.token });
        return new Promise((resolve) => requests.set(number, { resolve, controller, lock }));
      })
      .then(
        (value) => report(number, 'settled', { value }),
        ({ name, message }) => report(number, 'settled', { error: { name, message } }),
      );
    if (!requests.has(number)) requests.set(number, { controller });
    // Nobody is told of it before it has its place in the queue. In the host scope, too, that can be
    // later, as the first request always is.
    if (chosen !== 'process') await locks.query({ name });
    report(number, 'requested');
  }

  /** Waits for the unlock, again while somebody holds the name then; settles with how often. */
  async function waitForUnlock({ number, name }) {
    const mutex = new Mutex(name, { locks });
    const wait = async () => {
      let turns = 1;
      for (await mutex.waitForUnlock(); await locks.isBusy(name); turns++)
        await mutex.waitForUnlock();
      return turns;
    };
    const waited = wait();
    if (chosen !== 'process') await locks.query({ name });
    report(number, 'requested');
    report(number, 'settled', await waited);
  }

  return {
    request,
    waitForUnlock,
    publish: async ({ number, of, value }) =>
      report(number, 'settled', await requests.get(of).lock.publish(value)),
    release: ({ number }) => requests.get(number).resolve(),
    abort: ({ number, reason }) => requests.get(number).controller.abort(reason),
    query: async ({ number }) => report(number, 'settled', await locks.query()),
  };
}

module.exports = { serve };
