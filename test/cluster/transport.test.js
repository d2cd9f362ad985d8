// slow: 51; long; waits

'use strict';

/** How etcd is called: by Node's client for HTTP, at servers that are no etcd. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const diagnostics = require('node:diagnostics_channel');
const dns = require('node:dns');
const { once } = require('node:events');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const path = require('node:path');
const { after, describe, test } = require('node:test');

const { classify } = require('../../lib/cluster/engines/errors.js');
const { Gateway } = require('../../lib/cluster/engines/etcd/gateway.js');
const { send } = require('../../lib/cluster/engines/etcd/transport.js');
const { deferred } = require('../helpers/locks.js');
const { lacks, makeCertificate, stopAll } = require('./servers.js');

const ETCD = path.join(__dirname, '..', '..', 'lib', 'cluster', 'engines', 'etcd');

after(stopAll);

/** @returns {Promise<string>} the URL of a server that listens until the test is over */
async function listening(t, server, scheme = 'http') {
  const sockets = new Set();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server, 'listening');
  return `${scheme}://127.0.0.1:${server.address().port}`;
}

const serve = (t, answer) => listening(t, http.createServer(answer));

/** A server that sends these bytes as soon as it is asked, and then ends the connection. */
const serveBytes = (t, bytes, end = 'end') =>
  listening(
    t,
    net.createServer((socket) =>
      socket.once('data', () => socket.write(bytes, () => socket[end]())),
    ),
  );

const post = (url, { body = '{}', headers = {}, signal = new AbortController().signal } = {}) =>
  send(url, { method: 'POST', headers, body, signal });

const textFrom = async (url, options) => (await post(url, options)).text();

/** All of a body. */
async function bytesOf({ body }) {
  const chunks = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('a call of etcd', () => {
  test('is sent as it was given, with its length in bytes', async (t) => {
    const url = await serve(t, async (request, response) => {
      const body = String(await bytesOf({ body: request }));
      const { method, url: path, headers } = request;
      response.end(JSON.stringify({ body, method, path, headers }));
    });
    const headers = { 'content-type': 'application/json', 'user-agent': 'tests' };
    const sent = JSON.parse(await textFrom(`${url}/v3/kv/txn`, { body: '{"é":"😀"}', headers }));
    assert.deepEqual([sent.method, sent.path, sent.body], ['POST', '/v3/kv/txn', '{"é":"😀"}']);
    assert.equal(sent.headers['content-length'], String(Buffer.byteLength('{"é":"😀"}')));
    assert.equal(sent.headers['content-type'], 'application/json');
    assert.equal(sent.headers['user-agent'], 'tests');
  });

  test('is answered by text whose characters may be in two parts', async (t) => {
    const bytes = Buffer.from('é😀');
    const url = await serve(t, (_, response) => {
      for (const byte of bytes) response.write(Buffer.from([byte]));
      response.end();
    });
    assert.equal(await textFrom(url), 'é😀');
  });

  test('has all of an answer of some megabytes', async (t) => {
    const text = 'é😀x'.repeat(2 ** 20);
    const url = await serve(t, (_, response) => response.end(text));
    assert.ok((await textFrom(url)) === text);
  });

  test('is not sent again to where an answer leads', async (t) => {
    const url = await serve(t, (_, response) => {
      response.writeHead(307, { location: '/other' }).end('elsewhere');
    });
    const response = await post(url);
    assert.equal(response.status, 307);
    assert.equal(await response.text(), 'elsewhere');
  });

  test('takes the connection of the one before it', async (t) => {
    const server = http.createServer((_, response) => response.end('{}'));
    let connections = 0;
    server.on('connection', () => connections++);
    const url = await listening(t, server);
    for (let i = 0; i < 3; i++) await textFrom(url);
    assert.equal(connections, 1);
  });

  test('rejects where nobody listens', async (t) => {
    const server = net.createServer();
    const url = await listening(t, server);
    server.close();
    await assert.rejects(post(url), { code: 'ECONNREFUSED' });
  });

  test('rejects if its URL has a password', async () => {
    await assert.rejects(post('http://user:secret@127.0.0.1:1'), /'auth' option/);
  });

  test('is not changed by who replaces what it is made of', async (t) => {
    const url = await serve(t, (_, response) => response.end('{}'));
    const fail = () => {
      throw new Error('replaced');
    };
    for (const [object, name] of [
      ...[http, https].flatMap((client) => ['request', 'Agent'].map((name) => [client, name])),
      ...['URL', 'Buffer', 'fetch'].map((name) => [globalThis, name]),
    ]) {
      const was = Object.getOwnPropertyDescriptor(object, name);
      Object.defineProperty(object, name, { value: fail, configurable: true, writable: true });
      t.after(() => Object.defineProperty(object, name, was));
    }
    assert.equal(await textFrom(url), '{}');
  });
});

describe('an answer that is cut off', () => {
  const HEAD = 'HTTP/1.1 200 OK\r\n';
  const CUT = {
    'before it begins': '',
    'in its head': `${HEAD}content-len`,
    'before its length': `${HEAD}content-length: 10\r\n\r\n{"a":1}`,
    'before its last chunk': `${HEAD}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`,
    'or not, where that cannot be told,': `${HEAD}\r\n{"a":1}`,
    'or not, by HTTP 1.0,': 'HTTP/1.0 200 OK\r\n\r\n{"a":1}',
    'or not, in what is not chunked,': `${HEAD}transfer-encoding: gzip\r\n\r\n{"a":1}`,
    'by another protocol': 'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
    'by what is no chunk': `${HEAD}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\nno chunk\r\n`,
  };
  for (const [where, bytes] of Object.entries(CUT)) {
    for (const end of ['end', 'resetAndDestroy']) {
      test(`${where} is none (${end})`, async (t) => {
        const url = await serveBytes(t, bytes, end);
        await assert.rejects(textFrom(url));
        await assert.rejects(post(url).then(bytesOf));
      });
    }
  }

  test('rejects also who reads it only later', async (t) => {
    const url = await serveBytes(t, CUT['before its length']);
    const response = await post(url);
    response.body.resume();
    await once(response.body, 'close').catch(() => {});
    await assert.rejects(response.text());
  });
});

describe('who aborts a call', () => {
  const reason = new Error('enough');

  /** A call at a server, and a promise of the end of its connection there. */
  async function callAt(t, answer) {
    const abort = new AbortController();
    const asked = deferred();
    const url = await serve(t, (request, response) => {
      answer?.(response);
      asked.resolve({ closed: once(request.socket, 'close') });
    });
    const call = post(url, { signal: abort.signal });
    call.catch(() => {});
    return { abort: () => abort.abort(reason), call, asked: asked.promise };
  }

  test('before it is sent sends nothing', async (t) => {
    const url = await serve(t, () => assert.fail('was sent'));
    await assert.rejects(post(url, { signal: AbortSignal.abort(reason) }), reason);
  });

  test('has it rejected, and its connection ended', async (t) => {
    const { abort, asked, call } = await callAt(t);
    const { closed } = await asked;
    abort();
    await assert.rejects(call, reason);
    await closed;
  });

  test('has the text of its answer rejected, also if that was there', async (t) => {
    for (const answer of [(response) => response.write('{"a"'), (response) => response.end('{}')]) {
      const { abort, call } = await callAt(t, answer);
      const response = await call;
      const text = response.text();
      abort();
      await assert.rejects(text, reason);
      await assert.rejects(response.text(), reason);
    }
  });

  test('has its body ended with an error, and its connection', async (t) => {
    const { abort, asked, call } = await callAt(t, (response) => response.write('line\n'));
    const { closed } = await asked;
    const { body } = await call;
    const listened = (async () => {
      for await (const chunk of body) {
        assert.equal(String(chunk), 'line\n');
        abort();
      }
    })();
    await assert.rejects(listened, reason);
    await closed;
  });
});

test('a connection is ended when nobody uses it for a while, and one that is silent is not', async (t) => {
  const url = await serve(t, async (request, response) => {
    if (request.url === '/call') {
      response.end('{}');
      await once(request.socket, 'close');
      for (const go of idle) go();
    } else {
      response.write('first');
      goOn = () => response.end('last');
    }
  });
  let goOn;
  const idle = [];
  const ended = new Promise((resolve) => idle.push(resolve));
  const watches = [];
  const see = ({ request }) => watches.push(once(request, 'timeout'));
  diagnostics.subscribe('http.client.request.start', see);
  const watch = await post(`${url}/watch`);
  diagnostics.unsubscribe('http.client.request.start', see);
  await textFrom(`${url}/call`);
  await Promise.all([ended, ...watches]);
  goOn();
  assert.equal(String(await bytesOf(watch)), 'firstlast');
});

describe('a connection that is dropped', () => {
  /** Gateways at a server that answers what is not slow, and the sockets of calls, at both ends. */
  async function callsAt(t) {
    const sockets = [];
    const ports = [];
    const slow = deferred();
    const url = await serve(t, (request, response) => {
      ports.push(request.socket.remotePort);
      const answer = () => response.end('{"header":{"revision":"1"}}');
      if (request.url === '/v3/slow') slow.resolve(answer);
      else answer();
    });
    const see = ({ request }) => sockets.push(request.socket);
    diagnostics.subscribe('http.client.request.start', see);
    t.after(() => diagnostics.unsubscribe('http.client.request.start', see));
    const gateways = [1, 2].map(() => new Gateway({ endpoints: [url] }));
    return { gateways, ports, sockets, slow: slow.promise };
  }

  test('is followed by another one: behind a URL there may be several members', async (t) => {
    const { gateways, ports, sockets } = await callsAt(t);
    const link = gateways[0].connect();
    await link.call('kv/range', {});
    link.drop();
    assert.ok(sockets[0].destroyed);
    await gateways[0].connect().call('kv/range', {});
    await gateways[1].connect().call('kv/range', {});
    assert.notEqual(ports[1], ports[0]);
    assert.equal(ports[2], ports[1]);
  });

  test('ends no call of others, whose connection is not used again', async (t) => {
    const { gateways, ports, sockets, slow } = await callsAt(t);
    const call = gateways[1].connect().call('slow', {});
    const answer = await slow;
    gateways[0].connect().drop();
    answer();
    await call;
    assert.ok(sockets[0].destroyed);
    await gateways[0].connect().call('kv/range', {});
    assert.notEqual(ports[1], ports[0]);
  });

  test('is none where the URL is none', async () => {
    const link = new Gateway({ endpoints: ['http://['] }).connect();
    await assert.rejects(link.call('kv/range', {}), { code: 'ERR_WEB_LOCKS_UNREACHABLE' });
    link.drop();
  });
});

describe('a call that is not answered does not keep a program alive', () => {
  /** A program that makes a call that is answered, then one that is not, and then has no more to do. */
  const programOf = (url, fetch) => `
    const { Gateway } = require(${JSON.stringify(path.join(ETCD, 'gateway.js'))});
    const link = new Gateway({ endpoints: ['${url}'], fetch: ${fetch} }).connect();
    const working = setInterval(() => {}, 1_000);
    link.call('first', {}).then(() => {
      link.call('second', {}).catch(console.error);
      link.watch({}, () => clearInterval(working), console.error);
    });
  `;
  const answer = (request, response) => {
    if (request.url === '/v3/first') response.end('{"header":{"revision":"1"}}');
    else if (request.url === '/v3/watch') response.write('{"result":{}}\n');
  };
  const run = (program, env = {}) =>
    new Promise((resolve) => {
      const options = { env: { ...process.env, ...env }, timeout: 30_000 };
      execFile(process.execPath, ['-e', program], options, (error, stdout, stderr) =>
        resolve({ error, stdout, stderr }),
      );
    });
  const SILENT = { error: null, stdout: '', stderr: '' };

  test('by http', async (t) => {
    const url = await serve(t, answer);
    assert.deepEqual(await run(programOf(url)), SILENT);
  });

  test('by https, with the authority that NODE_EXTRA_CA_CERTS names', {
    skip: lacks.openssl,
  }, async (t) => {
    const { cert, certFile, key } = await makeCertificate();
    const url = await listening(t, https.createServer({ cert, key }, answer), 'https');
    assert.deepEqual(await run(programOf(url), { NODE_EXTRA_CA_CERTS: certFile }), SILENT);
  });

  test('by the fetch of Node.js', async (t) => {
    const url = await serve(t, answer);
    assert.deepEqual(await run(programOf(url, 'fetch')), SILENT);
  });
});

describe('a host none of whose addresses answers is told with what each of them says', () => {
  for (const [how, fetch] of Object.entries({ http: undefined, fetch: globalThis.fetch })) {
    test(`by ${how}`, async (t) => {
      const server = net.createServer();
      const { port } = new URL(await listening(t, server));
      server.close();
      t.mock.method(dns, 'lookup', (_host, _options, found) => {
        const six = { address: '::1', family: 6 };
        process.nextTick(found, null, [six, { address: '127.0.0.1', family: 4 }]);
      });
      const endpoint = `http://several:${port}`;
      const link = new Gateway({ endpoints: [endpoint], fetch }).connect();
      const each = `connect E\\w+ ::1:${port}.*; connect ECONNREFUSED 127.0.0.1:${port}`;
      await assert.rejects(link.call('kv/range', {}), {
        code: 'ERR_WEB_LOCKS_UNREACHABLE',
        message: new RegExp(`^etcd at ${endpoint} cannot be reached: ${each}$`),
      });
    });
  }
});

describe('the token of a user', () => {
  const GOOD = '{"header":{},"token":"good"}';
  const OFF = '{"error":"etcdserver: authentication is not enabled","code":9}';
  const EMPTY = '{"error":"etcdserver: user name is empty","code":3}';
  const INVALID = '{"error":"etcdserver: invalid auth token","code":16}';

  /**
   * A connection with a user, at a server that answers who asks for a token with the first of
   * `tokens`, then the next one.
   * @param {object} server
   * @param {[number, string][]} server.tokens status and text
   * @param {string} server.refusal of calls without the token 'good'
   * @param {() => boolean} [server.isOn] whether it refuses them
   */
  async function linkTo(t, { tokens, refusal, isOn = () => true }) {
    const url = await serve(t, (request, response) => {
      if (request.url === '/v3/auth/authenticate') {
        const [status, text] = tokens.shift();
        response.writeHead(status).end(text);
      } else if (request.headers.authorization === 'good' || !isOn()) {
        response.end('{"header":{"revision":"1"}}');
      } else {
        response.writeHead(400).end(refusal);
      }
    });
    const auth = { user: 'u', password: 'p' };
    return new Gateway({ endpoints: [url], auth }).connect();
  }

  for (const odd of ['<html>', 'null', '{"header":{},"tok', '{"header":{}}', '{"token":1}']) {
    test(`is asked for again after what is none: ${odd}`, async (t) => {
      const tokens = [
        [200, odd],
        [200, GOOD],
      ];
      const link = await linkTo(t, { tokens, refusal: EMPTY });
      await assert.rejects(link.call('kv/range', {}), (error) => {
        assert.match(error.message, /does not respond like etcd/);
        assert.equal(classify(error), 'retry');
        return true;
      });
      await link.call('kv/range', {});
      assert.deepEqual(tokens, []);
    });
  }

  for (const refusal of [EMPTY, INVALID]) {
    test(`is asked for where etcd wants one since: ${refusal}`, async (t) => {
      const tokens = [
        [400, OFF],
        [200, GOOD],
      ];
      let isOn = false;
      const link = await linkTo(t, { tokens, refusal, isOn: () => isOn });
      await link.call('kv/range', {});
      isOn = true;
      await link.call('kv/range', {});
      await link.call('kv/range', {});
      assert.deepEqual(tokens, []);
    });
  }

  test('is asked for once more, where etcd refuses it', async (t) => {
    const tokens = [
      [200, '{"token":"bad"}'],
      [200, '{"token":"bad"}'],
    ];
    const link = await linkTo(t, { tokens, refusal: EMPTY });
    await assert.rejects(link.call('kv/range', {}), { code: 'ERR_WEB_LOCKS_RIGHTS' });
    assert.deepEqual(tokens, []);
  });
});

test('a server whose certificate nobody vouches for is told as such', {
  skip: lacks.openssl,
}, async (t) => {
  const { cert, key } = await makeCertificate();
  const server = https.createServer({ cert, key }, () => assert.fail('was asked'));
  const url = await listening(t, server, 'https');
  const link = new Gateway({ endpoints: [url] }).connect();
  await assert.rejects(link.call('kv/range', {}), {
    code: 'ERR_WEB_LOCKS_UNREACHABLE',
    message: /cannot be reached: self-signed certificate/,
  });
});
