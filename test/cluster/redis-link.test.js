// slow: 40; long; waits
'use strict';

/** The connections of a bucket at Redis (lib/cluster/engines/redis/link.js). */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const net = require('node:net');
const { after, before, describe, it } = require('node:test');
const { setImmediate } = require('node:timers/promises');
const v8 = require('node:v8');
const vm = require('node:vm');
const { RedisLink, kindOf } = require('../../lib/cluster/engines/redis/link.js');
const { clients, clusterClients } = require('./redis-clients.js');

const KINDS = [
  ...Object.entries(clients).map(([kind, make]) => ({ kind, make, isCluster: false })),
  ...Object.entries(clusterClients).map(([name, make]) => ({
    kind: `${name} cluster`,
    make,
    isCluster: true,
  })),
];

/** The commands that are complete in what a connection got, and the rest. */
function commandsIn(all) {
  const commands = [];
  let text = all;
  for (;;) {
    const head = /^\*(\d+)\r\n/.exec(text);
    if (!head) return { commands, rest: text };
    let at = head[0].length;
    const words = [];
    while (words.length < Number(head[1])) {
      const [line, size] = /^\$(\d+)\r\n/.exec(text.slice(at)) ?? [];
      if (line === undefined || text.length < at + line.length + Number(size) + 2) break;
      words.push(text.slice(at + line.length, at + line.length + Number(size)));
      at += line.length + Number(size) + 2;
    }
    if (words.length < Number(head[1])) return { commands, rest: text };
    commands.push(words);
    text = text.slice(at);
  }
}

const bulk = (text) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;

/** What a server answers that has all slots but the first; '' for nothing. */
function usualReply(name, argument, ports, state) {
  if (name === 'HELLO') {
    state.push = argument === '3' ? '>' : '*';
    return argument === '3' ? `%1\r\n${bulk('proto')}:3\r\n` : `*2\r\n${bulk('proto')}:2\r\n`;
  }
  if (name === 'INFO') return bulk('redis_version:7.0.0\r\nloading:0\r\n');
  if (name === 'CLUSTER INFO') return bulk('cluster_state:ok\r\n');
  if (name === 'CLUSTER SLOTS') {
    const ranges = [`:1\r\n:16383`, `:0\r\n:0`];
    const shards = ports.map(
      (port, i) => `*3\r\n${ranges[i]}\r\n*3\r\n${bulk('127.0.0.1')}:${port}\r\n${bulk(`id${i}`)}`,
    );
    return `*${shards.length}\r\n${shards.join('')}`;
  }
  if (name === 'SUBSCRIBE') {
    return `${state.push ?? '*'}3\r\n${bulk('subscribe')}${bulk(argument)}:1\r\n`;
  }
  return '+OK\r\n';
}

/**
 * A server that answers as usual, unless `answer` returns something else: '' for nothing.
 * @param {(name: string, count: number) => string | undefined} answer to the n-th one
 */
async function serverThat(t, answer, others = []) {
  const sockets = new Set();
  const counts = new Map();
  const server = net.createServer((socket) => {
    const state = {};
    let text = '';
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    socket.setEncoding('utf8').on('data', (data) => {
      const { commands, rest } = commandsIn(text + data);
      text = rest;
      for (const words of commands) {
        const name = (/^cluster$/i.test(words[0]) ? words.join(' ') : words[0]).toUpperCase();
        counts.set(name, (counts.get(name) ?? 0) + 1);
        const reply = answer(name, counts.get(name));
        socket.write(reply ?? usualReply(name, words[1], [port, ...others], state));
      }
    });
  });
  t.after(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address();
  return { port, sockets };
}

/**
 * What a server and another one that it names answer, and do not, when the link is dropped.
 * @type {Record<string, (reached: () => void, other: { port: number }) => ((
 *   name: string, count: number) => string | undefined)[]>}
 */
const silentAt = (what, reached) => (name, count) => {
  if (name !== what) return undefined;
  reached(count);
  return '';
};
const redirect = (how, port) => (name) =>
  name === 'EVALSHA' ? `-${how} 0 127.0.0.1:${port()}\r\n` : undefined;
const PHASES = {
  'in its handshake': (reached) => [
    () => {
      reached();
      return '';
    },
  ],
  'while it subscribes': (reached) => [silentAt('SUBSCRIBE', reached)],
  'while a call is not answered': (reached) => [silentAt('EVALSHA', reached)],
};
const CLUSTER_PHASES = {
  'while it asks for the slots': (reached) => [silentAt('CLUSTER SLOTS', reached)],
  'while the node of an ASK is connected to': (reached, port) => [
    redirect('ASK', port),
    () => {
      reached();
      return '';
    },
  ],
  'while the node of an ASK is asked': (reached, port) => [
    redirect('ASK', port),
    (name) => {
      if (!/^(ASKING|EVALSHA)$/.test(name)) return undefined;
      reached();
      return '';
    },
  ],
  'while the slots are asked for after MOVED': (reached, port) => [
    (name, count) =>
      name === 'CLUSTER SLOTS' && count > 1
        ? silentAt(name, reached)(name)
        : redirect('MOVED', port)(name),
    (name) => (/CLUSTER SLOTS|EVALSHA/.test(name) ? silentAt(name, reached)(name) : undefined),
  ],
  'while it waits after TRYAGAIN': (reached) => [
    (name) => {
      if (name !== 'EVALSHA') return undefined;
      reached();
      return '-TRYAGAIN Multiple keys request during rehashing of slot\r\n';
    },
  ],
  'while it waits after CLUSTERDOWN': (reached) => [
    (name) => {
      if (name !== 'EVALSHA') return undefined;
      reached();
      return '-CLUSTERDOWN The cluster is down\r\n';
    },
  ],
};

describe('a link that is dropped', () => {
  for (const { kind, make } of KINDS) {
    it(`while it waits for a server closes its connections: ${kind}`, async (t) => {
      const server = net.createServer().listen(0, '127.0.0.1');
      t.after(() => server.close());
      await once(server, 'listening');
      const client = make(server.address().port);
      const link = new RedisLink(client, kindOf(client));
      const opened = assert.rejects(link.open(new Map()));
      const [socket] = await once(server, 'connection');
      socket.resume();
      link.drop();
      await opened;
      if (!socket.closed) await once(socket, 'close');
    });
  }
});

describe('a link that is dropped leaves no promise that rejects', { concurrency: 8 }, () => {
  const unhandled = [];
  const note = (error) => unhandled.push(error);
  before(() => process.on('unhandledRejection', note));
  after(() => process.off('unhandledRejection', note));

  for (const { kind, make, isCluster } of KINDS) {
    const phases = { ...PHASES, ...(isCluster && CLUSTER_PHASES) };
    // A node-redis asks no node that it was not told of, and an ioredis may subscribe at any other.
    const isNodeRedis = kind.startsWith('node-redis');
    if (isNodeRedis) delete phases['while the node of an ASK is connected to'];
    for (const [when, phase] of Object.entries(phases)) {
      it(`${when}, by ${kind}`, async (t) => {
        let other;
        const reached = new Promise((resolve) => {
          const [first, second = () => undefined] = phase(resolve, () => other.port);
          other = { first, second };
        });
        const { first, second } = other;
        other = await serverThat(t, second);
        const server = await serverThat(
          t,
          first,
          isNodeRedis && /ASK/.test(when) ? [other.port] : [],
        );
        const client = make(server.port);
        const link = new RedisLink(client, kindOf(client));
        const rejects = assert.rejects(
          (async () => {
            await link.open(new Map([['channel', () => {}]]));
            await link.call('EVALSHA', ['sha', '1', '{wl:b}'], '{wl:b}');
          })(),
        );
        // On a stalled machine a client of a cluster may give up before: it has time limits.
        await Promise.race([reached, rejects]);
        link.drop();
        await rejects;
        for (const { sockets } of [server, other]) {
          for (const socket of sockets) await new Promise((resolve) => socket.on('close', resolve));
        }
        await setImmediate();
        assert.deepEqual(unhandled, []);
      });
    }
  }
});

describe('the signal of the sockets of a node-redis cluster', () => {
  v8.setFlagsFromString('--expose-gc');
  const gc = vm.runInNewContext('gc');

  it('keeps no socket that is closed, and ends those that are not', async (t) => {
    const server = net.createServer((socket) => socket.on('error', () => {}).resume());
    t.after(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    let signal;
    const client = {
      duplicate({ defaults }) {
        signal = defaults.socket.signal;
        return { on() {}, destroy() {} };
      },
    };
    const link = new RedisLink(client, 'node-redis cluster');
    const warnings = [];
    const note = (warning) => warnings.push(warning.message);
    process.on('warning', note);
    t.after(() => process.off('warning', note));
    const connect = () => net.connect({ port: server.address().port, host: '127.0.0.1', signal });
    const open = connect().on('error', () => {});
    await once(open, 'connect');
    const closed = [];
    for (let i = 0; i < 20; i++) {
      const socket = connect();
      await once(socket, 'connect');
      socket.destroy();
      await once(socket, 'close');
      closed.push(new WeakRef(socket));
    }
    for (let i = 0; i < 5; i++) {
      await setImmediate();
      gc();
    }
    const kept = closed.filter((one) => one.deref()).length;
    assert.ok(kept <= 2, `${kept} are kept`);
    assert.deepEqual(warnings, []);
    const connecting = connect().on('error', () => {});
    link.drop();
    for (const socket of [open, connecting]) if (!socket.closed) await once(socket, 'close');
  });
});
