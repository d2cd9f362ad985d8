// slow: 25

'use strict';

/** `web-locks top`. */

const assert = require('node:assert/strict');
const net = require('node:net');
const { describe, it } = require('node:test');
const { hold } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');
const { run, skip, start } = require('./command.js');
const { ask, serve, states } = require('./pages.js');

/** A fresh bucket, and the options that name it. */
function setUp(t) {
  const { locks, where } = freshBucket(t);
  return { locks, at: ['--directory', where.directory, '--bucket', where.bucket] };
}

describe('web-locks top', { skip }, () => {
  it('is query --watch', async (t) => {
    const { locks, at } = setUp(t);
    const watcher = start(t, ['top', ...at]);
    await watcher.says(/^No locks are held, and nobody waits in bucket "bucket" of /);
    await hold(locks, 'a');
    await watcher.says(/\n\nNAME .*\na +held .*\n/);
  });
});

describe('web-locks top --web', { skip }, () => {
  it('serves a page that loads nothing, and whose policy lets nothing else be', async (t) => {
    const { at } = setUp(t);
    const { url } = await serve(t, at);
    const { status, headers, text } = await ask(url);
    assert.equal(status, 200);
    assert.ok(!/https?:/.test(text));
    assert.ok(!/\ssrc=|\son[a-z]+=/.test(text));
    const policy = headers['content-security-policy'];
    assert.match(
      policy,
      /^default-src 'none'; style-src 'sha256-[^ ]+'; script-src 'sha256-[^ ]+'/,
    );
    assert.match(policy, /connect-src 'self'; .*frame-ancestors 'none'/);
    assert.ok(!policy.includes('unsafe'));
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['referrer-policy'], 'no-referrer');
  });

  it('tells who holds and who waits, in the order of the queue, and what changes', async (t) => {
    const { locks, at } = setUp(t);
    const { url } = await serve(t, at);
    const all = states(t, url);
    const next = async () => (await all.next()).value;
    assert.deepEqual(await next(), []);
    const { lock, release } = await hold(locks, 'a', { label: 'first' });
    for (const label of ['second', 'third']) {
      locks.request('a', { label }, () => new Promise(() => {})).catch(() => {});
    }
    let [group] = await next();
    while (group.pending < 2) [group] = await next();
    const { rows, ...more } = group;
    assert.deepEqual(more, { name: 'a', held: 1, pending: 2, limit: 0, units: 0 });
    assert.deepEqual(
      rows.map(({ isHeld, label, token }) => [isHeld, label, token]),
      [
        [true, 'first', String(lock.token)],
        [false, 'second', ''],
        [false, 'third', ''],
      ],
    );
    for (const { age, pid, thread, mode } of rows) {
      assert.ok(age >= 0);
      assert.deepEqual([pid, thread, mode], [process.pid, 'main', 'exclusive']);
    }
    await release();
    [group] = await next();
    assert.deepEqual([group.rows[0].label, group.pending], ['second', 1]);
  });

  it('tells the units of a semaphore', async (t) => {
    const { locks, at } = setUp(t);
    for (const weight of [1, 2]) await hold(locks, 'a', { mode: 'shared', limit: 4, weight });
    const { url } = await serve(t, at);
    const [{ limit, units, rows }] = (await states(t, url).next()).value;
    assert.deepEqual([limit, units], [4, 3]);
    assert.deepEqual(
      rows.map(({ mode }) => mode),
      ['shared 1/4', 'shared 2/4'],
    );
  });

  it('shows what cannot be seen, and cuts what is too long', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, '\0\u202e</script>\ud800', { label: 'x'.repeat(4000) });
    const names = ['y', 'z'].map((end) => `${'n'.repeat(2000)}${end}`);
    for (const name of names) await hold(locks, name);
    const { url } = await serve(t, at);
    const groups = (await states(t, url).next()).value;
    const [strange, ...long] = groups;
    assert.equal(strange.name, '"\\u{0}\\u{202e}</script>\\u{d800}"');
    assert.equal(strange.rows[0].label, `${'x'.repeat(1000)}… (4000 characters)`);
    assert.equal(long[0].name, `${'n'.repeat(1000)}… (2001 characters)`);
    assert.equal(new Set(long.map(({ id }) => id)).size, names.length);
  });

  it('--name shows one name', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    await hold(locks, 'b');
    const { url } = await serve(t, [...at, '--name', 'b']);
    const groups = (await states(t, url).next()).value;
    assert.deepEqual(
      groups.map(({ name }) => name),
      ['b'],
    );
  });

  it('refuses a host that has another name, or another port', async (t) => {
    const { at } = setUp(t);
    const { url } = await serve(t, at);
    const statusOf = async (host) => (await ask(url, { headers: { host } })).status;
    for (const host of ['127.0.0.1', 'LocalHost', '[::1]']) {
      assert.equal(await statusOf(`${host}:${url.port}`), 200, host);
    }
    const others = ['rebound.example', `rebound.example:${url.port}`, '127.0.0.1', 'localhost:1'];
    for (const host of others) assert.equal(await statusOf(host), 403, host);
  });

  it('refuses who does not know the secret of its URL', async (t) => {
    const { at } = setUp(t);
    const { url } = await serve(t, at);
    assert.match(url.pathname, /^\/[\w-]{32}\/$/);
    const { pathname } = url;
    const similar = `/${pathname[1] === 'x' ? 'y' : 'x'}${pathname.slice(2)}`;
    const wrong = ['/', '/events', '//events', pathname.slice(0, -1), `${pathname}x`];
    for (const path of [...wrong, similar, `${similar}events`]) {
      assert.equal((await ask(url, { path })).status, 404, path);
    }
    const { url: other } = await serve(t, at);
    assert.notEqual(other.pathname, pathname);
  });

  it('takes nothing but questions, and lets no other site ask', async (t) => {
    const { at } = setUp(t);
    const { url } = await serve(t, at);
    const headers = { origin: 'http://evil.example' };
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      assert.equal((await ask(url, { method, headers })).status, 405, method);
    }
    const answer = await ask(url, { method: 'HEAD', headers });
    assert.deepEqual([answer.status, answer.text], [200, '']);
    const allowing = Object.keys(answer.headers).filter((name) => name.startsWith('access-'));
    assert.deepEqual(allowing, []);
    assert.equal(answer.headers['cross-origin-resource-policy'], 'same-origin');
  });

  const lacks = process.platform === 'linux' ? false : 'there 127.0.0.2 is no address';

  it('listens on 127.0.0.1 and no other address', { skip: lacks }, async (t) => {
    const { at } = setUp(t);
    const { url } = await serve(t, at);
    const socket = net.connect({ host: '127.0.0.2', port: url.port });
    t.after(() => socket.destroy());
    const ended = new Promise((resolve, reject) => {
      socket.on('error', resolve).on('connect', () => reject(new Error('It is connected.')));
    });
    assert.equal((await ended).code, 'ECONNREFUSED');
  });

  it('--port is its port, which nobody else may have', async (t) => {
    const { at } = setUp(t);
    const { url, command } = await serve(t, at);
    const { code, stdout, stderr } = await run(t, ['top', '--web', '--port', url.port, ...at]);
    assert.deepEqual({ code, stdout }, { code: 69, stdout: '' });
    assert.equal(stderr, `web-locks: port ${url.port} cannot be used: it is in use.\n`);
    command.kill('SIGTERM');
    await command.ended;
    const { url: next } = await serve(t, [...at, '--port', url.port]);
    assert.equal(next.port, url.port);
  });

  for (const [signal, ending] of [
    ['SIGTERM', { code: null, signal: 'SIGTERM' }],
    ['SIGINT', { code: 0, signal: null }],
  ]) {
    it(`${signal} ends it, while pages are open`, async (t) => {
      const { at } = setUp(t);
      const { command, url } = await serve(t, at);
      const pages = [states(t, url), states(t, url)];
      for (const page of pages) assert.deepEqual((await page.next()).value, []);
      command.kill(signal);
      const { code, signal: by, stderr } = await command.ended;
      assert.deepEqual({ code, signal: by, stderr }, { ...ending, stderr: '' });
      for (const page of pages) await assert.rejects(page.next(), { code: 'ECONNRESET' });
    });
  }
});

describe('what a page is told', { skip }, () => {
  const { groupsOf } = require('../../lib/cli/view-model.js');
  const entry = { mode: 'exclusive', label: '', host: 'h', pid: 1, threadId: 0, threadName: '' };
  const locks = (count, more) => {
    const held = Array.from({ length: count }, (_, i) => ({ ...entry, name: `${i}`, ...more }));
    return { held, pending: [] };
  };

  it('is not much, however long names are', () => {
    const long = `\ud83d\ude00${'\0'.repeat(2 ** 20)}`;
    const told = JSON.stringify(groupsOf(locks(1, { name: long, label: long, host: long })));
    assert.ok(told.length < 30_000);
    assert.ok(told.includes(`… (${long.length} characters)`));
  });

  it('is no more than so many locks, with the numbers of all', () => {
    const groups = groupsOf(locks(12_000, { name: 'a' }));
    assert.deepEqual([groups.length, groups[0].held, groups[0].rows.length], [1, 12_000, 10_000]);
  });

  it('is no more than so many names, with the numbers of all', () => {
    const groups = groupsOf(locks(12_000));
    const { name, names, held, rows } = groups.at(-1);
    assert.deepEqual(
      [groups.length, name, names, held, rows.length],
      [10_001, '… and 2000 more names', 2000, 2000, 0],
    );
  });
});

describe('what the page says of a server', { skip }, () => {
  const { describeBucket } = require('../../lib/cli/top.js');

  it('has no password', () => {
    for (const [at, expected] of [
      [
        'postgres://app:secret@db.example:5432/shop?password=secret',
        'postgres://db.example:5432/shop',
      ],
      ['redis://:se@cret@cache.example', 'redis://cache.example'],
      ['etcd+http://u:secret@a:2379,b:2379', 'etcd+http://a:2379,b:2379'],
      ['postgres://db.example/shop#secret', 'postgres://db.example/shop'],
    ]) {
      assert.equal(describeBucket({ at }), `Locks at ${expected}, the default bucket`);
    }
  });
});
