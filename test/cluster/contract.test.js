'use strict';

/** Runs the contract of adapters in memory: the reference engine of the stories keeps it, too. */

const { describe } = require('node:test');
const { TTL, clientOf, contract, disposeAfterEach } = require('./contract.js');
const { connect, newServer } = require('../conformance/memory.js');
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
    expire: async (session) => serverOf('bucket').expire(session),
    left: async (session) => {
      const { names, sessions } = serverOf('bucket').snapshot();
      const rows = [...names.values()].flatMap((queue) => queue.rows);
      return rows.filter((row) => row.session === session).length + Number(sessions.has(session));
    },
    window: WINDOW,
    // No test here moves the clock of its quarantines: stories begin and end them.
    neverForgets: true,
  });
});
