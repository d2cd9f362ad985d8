'use strict';

/** The contract of adapters, in memory: the reference engine of the stories keeps it, too. */

const { describe } = require('node:test');
const { TTL, clientOf, contract, disposeAfterEach } = require('./contract.js');
const { connect, newServer } = require('./here.js');
const { MemoryAdapter, WINDOW } = require('./memory.js');

const servers = new Map();
const serverOf = (bucket) => {
  if (!servers.has(bucket)) servers.set(bucket, newServer());
  return servers.get(bucket);
};

describe('in memory', () => {
  disposeAfterEach();
  contract({
    client: ({ bucket = 'bucket' } = {}, ttl = TTL, seen = undefined) =>
      clientOf(new MemoryAdapter(connect(serverOf(bucket))), ttl, seen),
    alone: { bucket: 'alone' },
    keeper: ({ bucket = 'bucket' } = {}) => new MemoryAdapter(connect(serverOf(bucket))),
    leaseEnd: async (session) => {
      const { sessions } = serverOf('bucket').snapshot();
      return sessions.find(([id]) => id === session)[1].expires;
    },
    expire: async (session) => serverOf('bucket').expire(session),
    left: async (session) => {
      const { rows, sessions } = serverOf('bucket').snapshot();
      const all = rows.flatMap(([, queue]) => queue.rows.filter((row) => row.session === session));
      return all.length + sessions.filter(([id]) => id === session).length;
    },
    window: WINDOW,
    // Its quarantines end by a clock that no test has here: stories begin and end them.
    neverForgets: true,
  });
});
