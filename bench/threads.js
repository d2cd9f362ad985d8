/**
 * A worker of the works with several threads: it posts what its peer needs, waits for the start,
 * and posts the nanoseconds of each hand-off or request.
 */

const { parentPort, workerData } = require('node:worker_threads');
const { size } = require('./size.js');

const { kind, index, count } = workerData;
const callback = async () => {};
const now = () => Number(process.hrtime.bigint());

/**
 * Each wake-up answers the other one. `receive(answer)` is called once, with the function to call
 * when woken.
 */
function alternate(send) {
  return new Promise((resolve) => {
    const start = now();
    let left = count;
    send.onWake = () => {
      if (left-- > 0) send();
      if (left <= 0) resolve((now() - start) / count / 2);
    };
    if (index === 0) send();
  });
}

/** Measures `count` calls of `request`, after so many that the engine has compiled everything. */
async function sequential(request) {
  for (let i = 0; i < size(50_000); i++) await request();
  const start = now();
  for (let i = 0; i < count; i++) await request();
  return (now() - start) / count;
}

const kinds = {
  /** A hand-off without a lock: the bare wake-up of a thread-safe function. */
  wake() {
    const probe = require('./build/Release/probe.node');
    let send;
    const listener = probe.listen(() => send.onWake());
    return {
      listener,
      run({ peer }) {
        send = () => probe.wake(peer);
        return alternate(send);
      },
    };
  },

  /** The same with messages. */
  port: () => ({
    run({ port }) {
      const send = () => port.postMessage(0);
      port.on('message', () => send.onWake());
      return alternate(send);
    },
  }),

  /** Both threads always want the lock, so each release hands it to the other one. */
  handOff() {
    const { locks } = require('..');
    return { run: async () => (await sequential(() => locks.request('resource', callback))) / 2 };
  },

  /** Each worker has a name of its own. */
  ownNames() {
    const { locks } = require('..');
    return { run: () => sequential(() => locks.request(`resource-${index}`, callback)) };
  },

  /** All workers want the same name. */
  oneName() {
    const { locks } = require('..');
    return { run: () => sequential(() => locks.request('resource', callback)) };
  },

  /** Own names without a lock: the cost of so many threads on this machine. */
  noLocks() {
    const { request } = require('./subjects.js').subjects.floor();
    return { run: () => sequential(() => request(`resource-${index}`, callback)) };
  },

  startUp() {
    const start = now();
    require('..');
    const time = (now() - start) / 1e6;
    return { run: async () => time };
  },
};

const { listener, run } = kinds[kind]();
parentPort.once('message', async (start) => parentPort.postMessage(await run(start)));
parentPort.postMessage(listener);
