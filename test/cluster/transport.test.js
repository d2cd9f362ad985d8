// slow: 51; long; waits

'use strict';

/** Tests how calls reach etcd, through Node's HTTP client or a `fetch`, at imitated servers. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const diagnostics = require('node:diagnostics_channel');
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

/** Starts a server that answers a connection's first data with these bytes, and ends it. */
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

/** Reads the whole body. */
async function bytesOf({ body }) {
  const chunks = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('a call of etcd', () => {
  test('gets the whole text of an answer, however it is split', async (t) => {
    const text = 'é😀x'.repeat(2 ** 20);
    const url = await serve(t, (_, response) => {
      for (const byte of Buffer.from('é😀')) response.write(Buffer.from([byte]));
      response.end(text);
    });
    assert.ok((await textFrom(url)) === `é😀${text}`);
  });

  test('uses the connection of the one before it', async (t) => {
    const server = http.createServer((_, response) => response.end('{}'));
    let connections = 0;
    server.on('connection', () => connections++);
    const url = await listening(t, server);
    for (let i = 0; i < 3; i++) await textFrom(url);
    assert.equal(connections, 1);
  });

  test('rejects if no server listens, or if its URL has a password', async (t) => {
    const server = net.createServer();
    const url = await listening(t, server);
    server.close();
    await assert.rejects(post(url), { code: 'ECONNREFUSED' });
    await assert.rejects(post('http://user:secret@127.0.0.1:1'), /'auth' option/);
  });
});

describe('an answer counts as cut off', () => {
  const HEAD = 'HTTP/1.1 200 OK\r\n';
  const CHUNK = `${HEAD}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`;
  for (const [what, bytes] of Object.entries({
    'if there is none': '',
    'in its head': `${HEAD}content-len`,
    'before its length': `${HEAD}content-length: 10\r\n\r\n{"a":1}`,
    'before its last chunk': CHUNK,
    'in what is no chunk': `${CHUNK}no chunk\r\n`,
    'if it does not say where it ends': `${HEAD}\r\n{"a":1}`,
    'if HTTP 1.0 does not say that': 'HTTP/1.0 200 OK\r\n\r\n{"a":1}',
    'if it is coded, and in no chunks': `${HEAD}transfer-encoding: gzip\r\n\r\n{"a":1}`,
    'if another protocol follows': 'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
  }))
    test(what, async (t) => {
      for (const end of ['end', 'resetAndDestroy']) {
        const url = await serveBytes(t, bytes, end);
        await assert.rejects(textFrom(url));
        await assert.rejects(post(url).then(bytesOf));
        const late = post(url).then(async (response) => {
          response.body.resume();
          await once(response.body, 'close').catch(() => {});
          return response.text();
        });
        await assert.rejects(late);
      }
    });
});

describe('the abort of a call', () => {
  const reason = new Error('enough');

  /** Makes a call at a server, and returns a promise of its connection's end there. */
  async function callAt(t, answer = () => {}) {
    const abort = new AbortController();
    const asked = deferred();
    const url = await serve(t, (request, response) => {
      answer(response);
      asked.resolve({ closed: once(request.socket, 'close') });
    });
    const call = post(url, { signal: abort.signal });
    call.catch(() => {});
    return { abort: () => abort.abort(reason), call, asked: asked.promise };
  }

  test('before it is sent keeps it from being sent', async (t) => {
    const url = await serve(t, () => assert.fail('was sent'));
    await assert.rejects(post(url, { signal: AbortSignal.abort(reason) }), reason);
  });

  test('rejects it, and ends its connection', async (t) => {
    const { abort, asked, call } = await callAt(t);
    const { closed } = await asked;
    abort();
    await assert.rejects(call, reason);
    await closed;
  });

  test('rejects the text of its answer, even if that was there', async (t) => {
    for (const answer of [(response) => response.write('{"a"'), (response) => response.end('{}')]) {
      const { abort, call } = await callAt(t, answer);
      const response = await call;
      const text = response.text();
      abort();
      await assert.rejects(text, reason);
      await assert.rejects(response.text(), reason);
    }
  });

  test('ends the body of its answer with an error', async (t) => {
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

test('an unused connection ends after a while, but not one whose answer is silent', async (t) => {
  const ended = deferred();
  const silent = deferred();
  const url = await serve(t, async (request, response) => {
    if (request.url === '/watch') {
      response.write('first');
      silent.resolve(response);
      return;
    }
    response.end('{}');
    await once(request.socket, 'close');
    ended.resolve();
  });
  let timeout;
  const see = ({ request }) => {
    timeout ??= once(request, 'timeout');
  };
  diagnostics.subscribe('http.client.request.start', see);
  const watch = await post(`${url}/watch`);
  diagnostics.unsubscribe('http.client.request.start', see);
  await textFrom(`${url}/call`);
  await Promise.all([ended.promise, timeout]);
  (await silent.promise).end('last');
  assert.equal(String(await bytesOf(watch)), 'firstlast');
});

describe('a connection that is dropped', () => {
  /** Makes gateways to a server that answers all but slow calls, and lists both ends' sockets. */
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

  test('is followed by a new one, as several members may be behind a URL', async (t) => {
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

  test('answers the calls of others, but serves no later ones', async (t) => {
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
});

describe('a call that is not answered does not keep a program alive', () => {
  /**
   * A program whose first call is answered, whose second one is not, and which then has no more.
   */
  const programOf = (url, fetch) => `
    const { Gateway } = require(${JSON.stringify(path.join(ETCD, 'gateway.js'))});
    const link = new Gateway({ endpoints: ['${url}'], fetch: ${fetch} }).connect();
    const working = setInterval(() => {}, 1_000);
    link.call('first', {}).then(() => {
      link.call('second', {}).catch(console.error);
      link.onDown = console.error;
      link.watch({}, () => clearInterval(working));
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

  for (const fetch of ['undefined', 'fetch'])
    test(`by http, if the option 'fetch' is ${fetch}`, async (t) => {
      const url = await serve(t, answer);
      assert.deepEqual(await run(programOf(url, fetch)), SILENT);
    });

  test('by https, with the authority that NODE_EXTRA_CA_CERTS names', {
    skip: lacks.openssl,
  }, async (t) => {
    const { cert, certFile, key } = await makeCertificate();
    const url = await listening(t, https.createServer({ cert, key }, answer), 'https');
    assert.deepEqual(await run(programOf(url), { NODE_EXTRA_CA_CERTS: certFile }), SILENT);
  });
});

describe('the token of a user', () => {
  const GOOD = '{"header":{},"token":"good"}';
  const EMPTY = '{"error":"etcdserver: user name is empty","code":3}';

  /**
   * Opens a connection with a user. Its server answers each request for a token with the next of
   * `tokens`, and refuses calls without the token 'good'.
   */
  async function linkTo(t, tokens) {
    const url = await serve(t, (request, response) => {
      const isGood = request.headers.authorization === 'good';
      let text = isGood ? '{"header":{"revision":"1"}}' : EMPTY;
      if (request.url === '/v3/auth/authenticate') text = tokens.shift();
      response.writeHead(text.startsWith('{"error"') ? 400 : 200).end(text);
    });
    const auth = { user: 'u', password: 'p' };
    return new Gateway({ endpoints: [url], auth }).connect();
  }

  for (const odd of ['<html>', 'null', '{"header":{},"tok', '{"header":{}}', '{"token":1}']) {
    test(`is requested again after an answer that has none: ${odd}`, async (t) => {
      const tokens = [odd, GOOD];
      const link = await linkTo(t, tokens);
      await assert.rejects(link.call('kv/range', {}), (error) => {
        assert.match(error.message, /does not respond like etcd/);
        return classify(error) === 'retry';
      });
      await link.call('kv/range', {});
      assert.deepEqual(tokens, []);
    });
  }

  test('is requested once more if etcd refuses it', async (t) => {
    const tokens = ['{"token":"bad"}', '{"token":"bad"}'];
    const link = await linkTo(t, tokens);
    await assert.rejects(link.call('kv/range', {}), { code: 'ERR_WEB_LOCKS_RIGHTS' });
    assert.deepEqual(tokens, []);
  });
});
