// slow: 10

'use strict';

/** `web-locks top --web`; without `--web` it is `query --watch`. */

const assert = require('node:assert/strict');
const net = require('node:net');
const { describe, it } = require('node:test');
const { describeBucket } = require('../../lib/cli/top.js');
const { groupsOf } = require('../../lib/cli/view-model.js');
const { hold } = require('../helpers/locks.js');
const { check, run, setUp, skip } = require('./command.js');
const { ask, serve, states } = require('./pages.js');

describe('the server of top --web', { skip }, () => {
  it('serves its page on this machine to a browser that knows its URL', async (t) => {
    const { at } = setUp(t);
    const { command, url } = await serve(t, at);
    const { pathname, port } = url;
    const statusOf = async (options) => (await ask(url, options)).status;

    await t.test('the page loads nothing, and its policy allows nothing else', async () => {
      const { status, headers, text } = await ask(url);
      assert.equal(status, 200);
      assert.ok(!/https?:|\ssrc=|\son[a-z]+=/.test(text));
      const policy = headers['content-security-policy'];
      const begin = /^default-src 'none'; style-src 'sha256-[^ ]+'; script-src 'sha256-[^ ]+'/;
      assert.match(policy, begin);
      assert.match(policy, /connect-src 'self'; .*frame-ancestors 'none'/);
      assert.ok(!policy.includes('unsafe'));
      assert.equal(headers['cache-control'], 'no-store');
      assert.equal(headers['referrer-policy'], 'no-referrer');
    });

    await t.test('another host name or port is refused', async () => {
      for (const [host, status] of [
        ...['127.0.0.1', 'LocalHost', '[::1]'].map((name) => [`${name}:${port}`, 200]),
        ...['rebound.example', `rebound.example:${port}`, '127.0.0.1'].map((name) => [name, 403]),
        ['localhost:1', 403],
      ])
        assert.equal(await statusOf({ headers: { host } }), status, host);
    });

    await t.test('a path without the secret is not found', async () => {
      assert.match(pathname, /^\/[\w-]{32}\/$/);
      const similar = `/${pathname[1] === 'x' ? 'y' : 'x'}${pathname.slice(2)}`;
      const wrong = ['/', '/events', '//events', pathname.slice(0, -1), `${pathname}x`];
      for (const path of [...wrong, similar, `${similar}events`])
        assert.equal(await statusOf({ path }), 404, path);
    });

    await t.test('other sites and other methods are refused', async () => {
      const headers = { origin: 'http://evil.example' };
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
        assert.equal(await statusOf({ method, headers }), 405, method);
      const answer = await ask(url, { method: 'HEAD', headers });
      assert.deepEqual([answer.status, answer.text], [200, '']);
      assert.ok(Object.keys(answer.headers).every((name) => !name.startsWith('access-')));
      assert.equal(answer.headers['cross-origin-resource-policy'], 'same-origin');
    });

    const noAddress = process.platform === 'linux' ? false : 'there 127.0.0.2 is no address';
    await t.test('another address does not answer', { skip: noAddress }, async (t) => {
      const socket = net.connect({ host: '127.0.0.2', port });
      t.after(() => socket.destroy());
      const ended = new Promise((resolve, reject) => {
        socket.on('error', resolve).on('connect', () => reject(new Error('It is connected.')));
      });
      assert.equal((await ended).code, 'ECONNREFUSED');
    });

    await t.test('a signal ends it and its pages; its port is its own', async () => {
      const words = ['top', '--web', '--port', port, ...at];
      const stderr = `web-locks: port ${port} cannot be used: it is in use.\n`;
      check(await run(t, words), { code: 69, stdout: '', stderr });
      await endWithPages(command, url, 'SIGTERM', { code: null, signal: 'SIGTERM' });
      const again = await serve(t, [...at, '--port', port]);
      assert.equal(again.url.port, port);
      assert.notEqual(again.url.pathname, pathname);
      await endWithPages(again.command, again.url, 'SIGINT', { code: 0, signal: null });
    });

    /** Ends it by a signal while pages are open. */
    async function endWithPages(command, url, signal, ending) {
      const pages = [states(t, url), states(t, url)];
      for (const page of pages) assert.deepEqual((await page.next()).value, []);
      command.kill(signal);
      check(await command.ended, { ...ending, stderr: '' });
      for (const page of pages) await assert.rejects(page.next(), { code: 'ECONNRESET' });
    }
  });

  it('sends holders and waiters in the order of the queue, and each change', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'other');
    const { url } = await serve(t, [...at, '--name', 'a']);
    const all = states(t, url);
    const next = async () => (await all.next()).value;
    assert.deepEqual(await next(), []);
    const { lock, release } = await hold(locks, 'a', { label: 'first' });
    for (const label of ['second', 'third'])
      locks.request('a', { label }, () => new Promise(() => {})).catch(() => {});
    let [group] = await next();
    while (group.pending < 2) [group] = await next();
    const { rows, ...more } = group;
    assert.deepEqual(more, { name: 'a', held: 1, pending: 2, limit: 0, units: 0 });
    const seen = rows.map(({ isHeld, label, token }) => `${isHeld} ${label} ${token}`);
    assert.deepEqual(seen, [`true first ${lock.token}`, 'false second ', 'false third ']);
    for (const { age, pid, thread, mode } of rows) {
      assert.ok(age >= 0);
      assert.deepEqual([pid, thread, mode], [process.pid, 'main', 'exclusive']);
    }
    await release();
    [group] = await next();
    assert.deepEqual([group.rows[0].label, group.pending], ['second', 1]);
  });

  it('sends units, escapes what cannot be seen, and cuts what is too long', async (t) => {
    const { locks, at } = setUp(t);
    for (const weight of [1, 2]) await hold(locks, '!', { mode: 'shared', limit: 4, weight });
    await hold(locks, '\0\u202e</script>\ud800', { label: 'x'.repeat(4000) });
    const names = ['y', 'z'].map((end) => `${'n'.repeat(2000)}${end}`);
    for (const name of names) await hold(locks, name);
    const { url } = await serve(t, at);
    const [strange, { limit, units, rows }, ...long] = (await states(t, url).next()).value;
    assert.deepEqual([limit, units], [4, 3]);
    assert.equal(rows.map(({ mode }) => mode).join(), 'shared 1/4,shared 2/4');
    assert.equal(strange.name, '"\\u{0}\\u{202e}</script>\\u{d800}"');
    assert.equal(strange.rows[0].label, `${'x'.repeat(1000)}… (4000 characters)`);
    assert.equal(long[0].name, `${'n'.repeat(1000)}… (2001 characters)`);
    assert.equal(new Set(long.map(({ id }) => id)).size, names.length);
  });
});

describe('the state that a page gets', { skip }, () => {
  const entry = { mode: 'exclusive', label: '', host: 'h', pid: 1, threadId: 0, threadName: '' };
  const locks = (count, more) => {
    const held = Array.from({ length: count }, (_, i) => ({ ...entry, name: `${i}`, ...more }));
    return { held, pending: [] };
  };

  it('is small, however long names are', () => {
    const long = `\ud83d\ude00${'\0'.repeat(2 ** 20)}`;
    const text = JSON.stringify(groupsOf(locks(1, { name: long, label: long, host: long })));
    assert.ok(text.length < 30_000);
    assert.ok(text.includes(`… (${long.length} characters)`));
  });

  it('has at most 10,000 locks and names, and counts all', () => {
    const [one, ...none] = groupsOf(locks(12_000, { name: 'a' }));
    assert.deepEqual([none.length, one.held, one.rows.length], [0, 12_000, 10_000]);
    const groups = groupsOf(locks(12_000));
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
