// slow: 6; waits

'use strict';

/** `web-locks top --web`; without `--web` it is `query --watch`. */

const assert = require('node:assert/strict');
const net = require('node:net');
const { describe, it } = require('node:test');
const { describeBucket } = require('../../lib/cli/top.js');
const { groupsOf } = require('../../lib/cli/view-model.js');
const { Web } = require('../../lib/cli/web.js');
const { hold } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');
const { check, run, setUp, skip } = require('./command.js');
const { ask, serve, states } = require('./pages.js');

describe('the server of top --web', { skip }, () => {
  /** Starts a server with an empty state here. @returns {Promise<URL>} the URL of its page */
  async function listen(t) {
    const web = new Web({ about: 'Locks', look: async () => ({ held: [], pending: [] }) });
    t.after(() => web.close());
    return new URL(await web.listen(0));
  }

  it('serves a page that loads nothing, under a policy that allows nothing else', async (t) => {
    const { status, headers, text } = await ask(await listen(t));
    assert.equal(status, 200);
    assert.ok(!/https?:|\ssrc=|\son[a-z]+=/.test(text));
    const policy = headers['content-security-policy'];
    const begin = /^default-src 'none'; style-src 'sha256-[^ ]+'; script-src 'sha256-[^ ]+'/;
    assert.match(policy, begin);
    assert.match(policy, /connect-src 'self'; .*frame-ancestors 'none'/);
    assert.ok(!policy.includes('unsafe'));
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['referrer-policy'], 'no-referrer');
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
    assert.ok(Object.keys(headers).every((name) => !name.startsWith('access-')));
  });

  it('answers only GET and HEAD, of its secret path, by a name of this machine', async (t) => {
    const url = await listen(t);
    const { pathname, port } = url;
    assert.match(pathname, /^\/[\w-]{32}\/$/);
    const similar = `/${pathname[1] === 'x' ? 'y' : 'x'}${pathname.slice(2)}`;
    const hosts = (...names) => names.map((host) => ({ headers: { host } }));
    const paths = (...all) => all.map((path) => ({ path }));
    const headers = { origin: 'http://evil.example' };
    for (const [status, requests] of [
      [200, hosts(`127.0.0.1:${port}`, `LocalHost:${port}`, `[::1]:${port}`)],
      [403, hosts('rebound.example', `rebound.example:${port}`, '127.0.0.1', 'localhost:1')],
      [404, paths('/', '/events', '//events', pathname.slice(0, -1), `${pathname}x`)],
      [404, paths(similar, `${similar}events`)],
      [405, ['POST', 'PUT', 'DELETE', 'OPTIONS'].map((method) => ({ method, headers }))],
    ]) {
      for (const request of requests)
        assert.equal((await ask(url, request)).status, status, JSON.stringify(request));
    }
    const { status, text } = await ask(url, { method: 'HEAD', headers });
    assert.deepEqual([status, text], [200, '']);
  });

  const noAddress = process.platform === 'linux' ? false : '127.0.0.2 is no address there';
  it('does not answer at another address', { skip: noAddress }, async (t) => {
    const { port } = await listen(t);
    const socket = net.connect({ host: '127.0.0.2', port });
    t.after(() => socket.destroy());
    const ended = new Promise((resolve, reject) => {
      socket.on('error', resolve).on('connect', () => reject(new Error('It is connected.')));
    });
    assert.equal((await ended).code, 'ECONNREFUSED');
  });
});

describe('web-locks top --web', { skip }, () => {
  it('sends the state of a name and each change to all pages', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'other');
    const { url } = await serve(t, [...at, '--name', 'a']);
    const pages = [states(t, url), states(t, url)];
    const next = async () => {
      const [[one], [other]] = await Promise.all(pages.map(async (p) => (await p.next()).value));
      assert.deepEqual(one?.rows.length, other?.rows.length);
      return one;
    };
    assert.equal(await next(), undefined);
    const { lock, release } = await hold(locks, 'a', { label: 'first' });
    const { rows, ...more } = await next();
    assert.deepEqual(more, { name: 'a', held: 1, pending: 0, limit: 0, units: 0 });
    const [{ age, pid, thread, mode, isHeld, label, token }] = rows;
    assert.ok(age >= 0);
    assert.deepEqual([pid, thread, mode], [process.pid, 'main', 'exclusive']);
    assert.deepEqual([isHeld, label, token], [true, 'first', `${lock.token}`]);
    await release();
    assert.equal(await next(), undefined);
  });

  it('ends with its pages by a signal, and refuses a port that is in use', async (t) => {
    const { at } = setUp(t);
    let port = [];
    for (const [signal, ending] of [
      ['SIGTERM', { code: null, signal: 'SIGTERM' }],
      ['SIGINT', { code: 0, signal: null }],
    ]) {
      const { command, url } = await serve(t, [...at, ...port]);
      port = ['--port', url.port];
      const stderr = `web-locks: port ${url.port} cannot be used: it is in use.\n`;
      check(await run(t, ['top', '--web', ...port, ...at]), { code: 69, stdout: '', stderr });
      const page = states(t, url);
      assert.deepEqual((await page.next()).value, []);
      command.kill(signal);
      check(await command.ended, { ...ending, stderr: '' });
      await assert.rejects(page.next(), { code: 'ECONNRESET' });
    }
  });
});

describe('the state that a page gets', { skip }, () => {
  const entry = { mode: 'exclusive', label: '', host: 'h', pid: 1, threadId: 0, threadName: '' };
  const locksOf = (count, more) => {
    const held = Array.from({ length: count }, (_, i) => ({ ...entry, name: `${i}`, ...more }));
    return { held, pending: [] };
  };

  it('has the order of the queue, units, and names that are escaped and cut', async (t) => {
    const { locks } = freshBucket(t);
    for (const weight of [1, 2]) await hold(locks, '!', { mode: 'shared', limit: 4, weight });
    await hold(locks, '\0\u202e</script>\ud800', { label: 'x'.repeat(4000) });
    for (const label of ['second', 'third'])
      locks.request('!', { label }, () => {}).catch(() => {});
    const names = ['y', 'z'].map((end) => `${'n'.repeat(2000)}${end}`);
    for (const name of names) await hold(locks, name);
    const [strange, group, ...long] = groupsOf(await locks.query({ details: true }));
    const { limit, units, held, pending, rows } = group;
    assert.deepEqual([limit, units, held, pending], [4, 3, 2, 2]);
    const seen = rows.map(({ isHeld, label, mode }) => (isHeld ? mode : label));
    assert.deepEqual(seen, ['shared 1/4', 'shared 2/4', 'second', 'third']);
    assert.equal(strange.name, '"\\u{0}\\u{202e}</script>\\u{d800}"');
    assert.equal(strange.rows[0].label, `${'x'.repeat(1000)}… (4000 characters)`);
    assert.equal(long[0].name, `${'n'.repeat(1000)}… (2001 characters)`);
    assert.equal(new Set(long.map(({ id }) => id)).size, names.length);
  });

  it('is small, however long names are', () => {
    const long = `\ud83d\ude00${'\0'.repeat(2 ** 20)}`;
    const text = JSON.stringify(groupsOf(locksOf(1, { name: long, label: long, host: long })));
    assert.ok(text.length < 30_000);
    assert.ok(text.includes(`… (${long.length} characters)`));
  });

  it('has at most 10,000 locks and names, and counts all', () => {
    const [one, ...none] = groupsOf(locksOf(12_000, { name: 'a' }));
    assert.deepEqual([none.length, one.held, one.rows.length], [0, 12_000, 10_000]);
    const groups = groupsOf(locksOf(12_000));
    assert.equal(groups.length, 10_001);
    const { name, names, held, rows } = groups.at(-1);
    assert.deepEqual([name, names, held, rows.length], ['… and 2000 more names', 2000, 2000, 0]);
  });

  it('has no password', () => {
    const postgres = 'postgres://app:secret@db.example:5432/shop?password=secret';
    for (const [at, expected] of Object.entries({
      [postgres]: 'postgres://db.example:5432/shop',
      'redis://:se@cret@cache.example': 'redis://cache.example',
      'etcd+http://u:secret@a:2379,b:2379': 'etcd+http://a:2379,b:2379',
      'postgres://db.example/shop#secret': 'postgres://db.example/shop',
    }))
      assert.equal(describeBucket({ at }), `Locks at ${expected}, the default bucket`);
  });
});
