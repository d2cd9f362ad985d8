// slow: 40; long; waits
'use strict';

/** Tests the connections of a bucket at Redis (lib/cluster/engines/redis/link.js). */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const net = require('node:net');
const { after, before, describe, it } = require('node:test');
const { setImmediate } = require('node:timers/promises');
const { RedisLink, kindOf } = require('../../lib/cluster/engines/redis/link.js');
const { gc } = require('../helpers/kept.js');
const { clientOf, clients, clusterClients } = require('./redis-clients.js');

const KINDS = [
  ...Object.keys(clients),
  ...Object.keys(clusterClients).map((kind) => `${kind} cluster`),
];

const linkOf = (kind, port) => {
  const client = clientOf(kind)(port);
  return new RedisLink(client, kindOf(client));
};

/** Starts a server on a free port, which ends with the test. */
async function listen(t, handle = () => {}) {
  const server = net.createServer(handle).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  return server;
}

/** Splits a connection's bytes into its complete commands and the rest; no word has a line feed. */
function commandsIn(text) {
  const lines = text.split('\r\n');
  const commands = [];
  for (let at = 0; ; ) {
    const end = at + 1 + 2 * Number(lines[at].slice(1));
    if (end >= lines.length) return { commands, rest: lines.slice(at).join('\r\n') };
    commands.push(lines.slice(at + 1, end).filter((_, i) => i % 2 === 1));
    at = end;
  }
}

const bulk = (text) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;

/** The answers of a server that has all slots but the first, which another one has. */
const USUAL = {
  HELLO: (version) =>
    version === '3' ? `%1\r\n${bulk('proto')}:3\r\n` : `*2\r\n${bulk('proto')}:2\r\n`,
  INFO: () => bulk('redis_version:7.0.0\r\nloading:0\r\n'),
  'CLUSTER INFO': () => bulk('cluster_state:ok\r\n'),
  'CLUSTER SLOTS': (_, ports) => {
    const ranges = [':1\r\n:16383', ':0\r\n:0'];
    const shards = ports.map(
      (port, i) => `*3\r\n${ranges[i]}\r\n*3\r\n${bulk('127.0.0.1')}:${port}\r\n${bulk(`id${i}`)}`,
    );
    return `*${shards.length}\r\n${shards.join('')}`;
  },
  SUBSCRIBE: (channel, _, isPush) =>
    `${isPush ? '>' : '*'}3\r\n${bulk('subscribe')}${bulk(channel)}:1\r\n`,
};

/**
 * Starts a server that answers as usual, except for what `answer` returns.
 * @param {(name: string) => string | undefined} answer '' for nothing
 */
async function serverThat(t, answer, others = []) {
  const sockets = new Set();
  const server = await listen(t, (socket) => {
    let isPush = false;
    let text = '';
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    socket.setEncoding('utf8').on('data', (data) => {
      const { commands, rest } = commandsIn(text + data);
      text = rest;
      for (const words of commands) {
        const name = (/^cluster$/i.test(words[0]) ? words.join(' ') : words[0]).toUpperCase();
        if (name === 'HELLO') isPush = words[1] === '3';
        const usual = USUAL[name] ?? (() => '+OK\r\n');
        socket.write(answer(name) ?? usual(words[1], [port, ...others], isPush));
      }
    });
  });
  const { port } = server.address();
  return { port, sockets };
}

const TRY_AGAIN = '-TRYAGAIN Multiple keys request during rehashing of slot\r\n';
const DOWN = '-CLUSTERDOWN The cluster is down\r\n';

/**
 * The points at which the link is dropped: at the last of these answers to a command, or to the
 * second such command, of a server and of another one that it names. '' means no answer.
 * @type {Record<string, Record<string, string>[]>}
 */
const PHASES = {
  'in its handshake': [{ ALL: '' }],
  'while it subscribes': [{ SUBSCRIBE: '' }],
  'while a call is not answered': [{ EVALSHA: '' }],
};
const CLUSTER_PHASES = {
  'while it asks for the slots': [{ 'CLUSTER SLOTS': '' }],
  'while the node of an ASK is connected to': [{ EVALSHA: 'ASK' }, { ALL: '' }],
  'while the node of an ASK is asked': [{ EVALSHA: 'ASK' }, { ASKING: '', EVALSHA: '' }],
  'while the slots are asked for after MOVED': [
    { EVALSHA: 'MOVED', 'CLUSTER SLOTS 2': '' },
    { EVALSHA: '', 'CLUSTER SLOTS': '' },
  ],
  'while it waits after TRYAGAIN': [{ EVALSHA: TRY_AGAIN }],
  'while it waits after CLUSTERDOWN': [{ EVALSHA: DOWN }],
};

describe('a link that is dropped', () => {
  for (const kind of KINDS) {
    it(`while it waits for a server closes its connections: ${kind}`, async (t) => {
      const server = await listen(t);
      const link = linkOf(kind, server.address().port);
      const opened = assert.rejects(link.open(new Map()));
      const [socket] = await once(server, 'connection');
      socket.resume();
      link.drop();
      await opened;
      if (!socket.closed) await once(socket, 'close');
    });
  }

  // An ioredis has not begun to connect then; a node-redis has, and cannot be stopped yet.
  for (const kind of ['node-redis', 'node-redis 5']) {
    it(`before it is connected ends its connections when it is: ${kind}`, async (t) => {
      const firsts = [];
      const server = await listen(t, (socket) => {
        const note = (what) => firsts.push(what) === 2 && server.emit('both');
        socket.on('error', () => {});
        socket.once('data', () => note('a command')).once('close', () => note('an end'));
      });
      const both = once(server, 'both');
      const link = linkOf(kind, server.address().port);
      const opened = assert.rejects(link.open(new Map()));
      link.drop();
      await opened;
      await both;
      assert.deepEqual(firsts, ['an end', 'an end']);
    });
  }
});

describe('a link that is dropped leaves no promise that rejects', { concurrency: 8 }, () => {
  const unhandled = [];
  const note = (error) => unhandled.push(error);
  before(() => process.on('unhandledRejection', note));
  after(() => process.off('unhandledRejection', note));

  for (const kind of KINDS) {
    const phases = { ...PHASES, ...(kind.endsWith('cluster') && CLUSTER_PHASES) };
    // A node-redis connects only to nodes that the cluster reports; an ioredis may subscribe there.
    const isNodeRedis = kind.startsWith('node-redis');
    if (isNodeRedis) delete phases['while the node of an ASK is connected to'];
    for (const [when, [first, second]] of Object.entries(phases)) {
      it(`${when}, by ${kind}`, async (t) => {
        let other;
        let reach;
        const reached = new Promise((resolve) => {
          reach = resolve;
        });
        const answerBy = (rules = {}) => {
          const counts = {};
          return (name) => {
            counts[name] = (counts[name] ?? 0) + 1;
            const text = rules[`${name} ${counts[name]}`] ?? rules[name] ?? rules.ALL;
            if (/^(ASK|MOVED)$/.test(text)) return `-${text} 0 127.0.0.1:${other.port}\r\n`;
            if (text !== undefined) reach();
            return text;
          };
        };
        other = await serverThat(t, answerBy(second));
        const known = isNodeRedis && /ASK/.test(when) ? [other.port] : [];
        const server = await serverThat(t, answerBy(first), known);
        const link = linkOf(kind, server.port);
        const call = async () => {
          await link.open(new Map([['channel', () => {}]]));
          await link.call('EVALSHA', ['sha', '1', '{wl:b}'], '{wl:b}');
        };
        const rejects = assert.rejects(call());
        // On a stalled machine, a client of a cluster may give up before, because it has time
        // limits.
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
  it('keeps no socket that is closed, and ends those that are not', async (t) => {
    const server = await listen(t, (socket) => socket.on('error', () => {}).resume());
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
