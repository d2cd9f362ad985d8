// slow: 44; long; waits

'use strict';

/** Every code block of README.md and docs/ runs as printed; blocks.js describes a block's keys. */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { anchorsOf, blocksOf, pages, root } = require('./blocks.js');
const { finish, prepare, runBlock, skipOf } = require('./programs.js');

const RUN = ['js', 'javascript', 'sh', 'sql'];

/** Compares the output of a program with the page. */
function compare(wanted, text) {
  if (wanted === undefined) return;
  const [, pattern, flags] = /^\/(.*)\/([a-z]*)$/.exec(wanted) ?? [];
  if (pattern === undefined) assert.equal(text, JSON.parse(wanted));
  else assert.match(text, new RegExp(pattern, flags));
}

/** The title of a block: its first line that is no import. */
function titleOf({ code, line }) {
  const first = code.find((text) => !/^(import .*|#!.*|\s*|const .*require\(.*)$/.test(text));
  return `line ${line}: ${(first ?? code[0]).trim().slice(0, 60)}`;
}

/** The tests mostly wait for servers, so more run at a time than there are cores. */
const concurrency = Number(process.env.WEB_LOCKS_TEST_CORES ?? os.cpus().length) + 1;

/** A pool of pg and its clients emit 'error', which ends a process that has no listener. */
const lacksListener = (text) =>
  (/new (pg\.)?Pool\(/.test(text) && !/\.on\('error',/.test(text)) ||
  (/pool\.connect\(/.test(text) && !/\.on\('connect',/.test(text));

describe('the code of the documents', { concurrency }, () => {
  before(prepare);
  after(finish);

  for (const page of pages()) {
    const blocks = blocksOf(page);
    for (const [i, block] of blocks.entries()) {
      const { keys } = block;
      const place = `${page}, ${titleOf(block)}`;
      it(place, { skip: skipOf(block) }, async () => {
        assert.ok(RUN.includes(block.language), `nothing runs ${block.language}: "not run: …"?`);
        const files = blocks.slice(0, i).filter((other) => other.keys.file);
        const { code, stderr, stdout } = await runBlock(block, files);
        const told = `${stdout}${stderr}`;
        if (keys.warns) compare(keys.warns, stderr);
        else assert.equal(stderr, '', `${place} writes to stderr`);
        assert.equal(code, 0, `${place} ends with ${code}:\n${told}`);
        compare(keys.prints, stdout);
      });
    }

    it(`${page} makes no pool that ends the process when the server restarts`, () => {
      const lacking = blocks.filter(({ after, before, code }) =>
        lacksListener([...before, ...code, ...after].join('\n')),
      );
      assert.deepEqual(lacking.map(titleOf), []);
    });
  }

  const guard = blocksOf('docs/CLUSTER.md').find(({ code }) =>
    code.join().includes('lock.guard(client)'),
  );
  it('the program with lock.guard returns its client when the lock was lost', {
    skip: skipOf(guard),
  }, async () => {
    const [first, rest] = [guard.before.slice(0, -1), guard.before.slice(-1)];
    assert.match(rest[0], /^const shop = openBucket/);
    const before = `const [bucket, thief] = [0, 1].map(() => openBucket('shop', { pool }));
      let end;
      const ended = new Promise((resolve) => { end = resolve; });
      const robbed = async (lock, callback) => {
        await thief.locks.request('order 7', { steal: true }, () => {});
        await callback(lock).finally(end);
      };
      const request = (name, callback) =>
        bucket.locks.request(name, (lock) => robbed(lock, callback));
      const shop = { locks: { request } };
      try {`;
    const after = `} catch (error) {
        console.log(error.name);
      }
      await ended;
      await Promise.all([bucket.close(), thief.close()]);
      console.log(pool.totalCount - pool.idleCount);
      await pool.end();`;
    const program = { ...guard, before: [...first, before], after: [after] };
    const { stderr, stdout } = await runBlock(program, []);
    assert.equal(stderr, '');
    assert.equal(stdout, 'AbortError\n0\n');
  });
});

describe('docs/API.md', () => {
  it('lists what the package exports, and nothing else', () => {
    const text = fs.readFileSync(path.join(root, 'docs', 'API.md'), 'utf8');
    const [, also] = /^Also exported: (.*?)\n\n/ms.exec(text) ?? [];
    const listed = [...also.matchAll(/`(\w+)`/g)].map(([, name]) => name);
    const exported = Object.keys(require('web-locks')).sort();
    assert.deepEqual(['locks', 'openBucket', ...listed].sort(), exported);
    const host = Object.keys(require('web-locks/host')).sort();
    assert.deepEqual(host, exported, 'web-locks/host exports the same');
  });
});

describe('README.md', () => {
  const text = fs.readFileSync(path.join(root, 'README.md'), 'utf8');

  it('has no figure that was not measured', () => {
    const { works } = require('../../docs/internals/performance.json');
    const median = (work, subject) =>
      works.find(({ name }) => name === work).medians[subject].value;
    const figureOf = (subject) => Math.round(median('sequential', subject)).toLocaleString('en');
    const measured = ['web-locks', 'async-mutex'].map((subject) => `${figureOf(subject)} ns`);
    const told = [...text.matchAll(/\b\d[\d,.]* (?:ns|µs|ms)\b/g)].map(([figure]) => figure);
    assert.deepEqual(told, measured);
  });

  it('has the facts of package.json in its first lines', () => {
    const manifest = require('../../package.json');
    const node = manifest.engines.node.replace('>=', '');
    const first = new RegExp(`^Version ${manifest.version} · Node.js ${node} or newer · no `, 'm');
    assert.match(text, first);
    assert.equal(manifest.dependencies, undefined);
  });

  it('has the figures of docs/RELIABILITY.md', () => {
    const reliability = fs.readFileSync(path.join(root, 'docs', 'RELIABILITY.md'), 'utf8');
    const figures = text.match(/\b\d{1,3}(,\d{3})+\b(?! ns)/g);
    assert.notEqual(figures, null);
    for (const figure of figures) assert.ok(reliability.includes(figure), figure);
  });
});

describe('docs/ARCHITECTURE.md', () => {
  it('draws the folders of lib', () => {
    const text = fs.readFileSync(path.join(root, 'docs', 'ARCHITECTURE.md'), 'utf8');
    const foldersOf = (folder) =>
      fs.readdirSync(path.join(root, folder)).filter((name) => !name.includes('.'));
    for (const [indent, folder] of Object.entries({ 2: 'lib', 4: 'lib/extensions' })) {
      const drawn = [...text.matchAll(new RegExp(`^ {${indent}}(\\w+)/ `, 'gm'))];
      assert.deepEqual(drawn.map(([, name]) => name).sort(), foldersOf(folder).sort());
    }
  });
});

describe('the links of the documents', () => {
  for (const page of pages()) {
    it(`${page} leads to files, headings and tests that are there`, () => {
      for (const { keys } of blocksOf(page).filter((block) => block.keys['tested by']))
        assert.ok(fs.existsSync(path.join(root, keys['tested by'])), keys['tested by']);
      const text = fs.readFileSync(path.join(root, page), 'utf8').replace(/```.*?```/gs, '');
      const named = /`((?:lib|src|test|scripts|docs|types)\/[\w/-]+\.[\w.]+)`/g;
      for (const [, file] of text.matchAll(named))
        assert.ok(fs.existsSync(path.join(root, file)), `${file}: no such file`);
      const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)];
      for (const [link, file, anchor] of links) {
        const target = file === '' ? page : path.join(path.dirname(page), file);
        assert.ok(fs.existsSync(path.join(root, target)), `${link}: no such file`);
        if (anchor)
          assert.ok(
            anchorsOf(path.join(root, target)).includes(anchor),
            `${link}: no such heading`,
          );
      }
    });
  }
});
