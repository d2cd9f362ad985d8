'use strict';

/** The connections of a bucket at Redis (lib/cluster/engines/redis/link.js). */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const net = require('node:net');
const { describe, it } = require('node:test');
const { Link, kindOf } = require('../../lib/cluster/engines/redis/link.js');
const { clients, clusterClients } = require('./redis-clients.js');

describe('a link that is dropped', () => {
  for (const [kind, make] of [
    ...Object.entries(clients),
    ...Object.entries(clusterClients).map(([name, one]) => [`${name} cluster`, one]),
  ]) {
    it(`while it waits for a server closes its connections: ${kind}`, async (t) => {
      const server = net.createServer().listen(0, '127.0.0.1');
      t.after(() => server.close());
      await once(server, 'listening');
      const client = make(server.address().port);
      const link = new Link(client, kindOf(client));
      const opened = assert.rejects(link.open(new Map()));
      const [socket] = await once(server, 'connection');
      socket.resume();
      link.drop();
      await opened;
      if (!socket.closed) await once(socket, 'close');
    });
  }
});
