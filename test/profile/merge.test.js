'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { merge } = require('../../lib/profile/merge.js');
const { freshDirectory } = require('../helpers/process.js');
const { preload, root } = require('./run.js');

const DAY = Date.parse('2026-01-01T00:00:00.000Z');

/**
 * The profile of a process. At its beginning, the monotonic clock was `zero` and the wall clock
 * `DAY + day`. A request is `[asked, granted, ended, token, more]`, in milliseconds since then.
 */
function profile({ host = 'a', zero = 0, day = 0 }, ...requests) {
  const traceEvents = requests.map(([asked, granted, ended, token, more], i) => ({
    ...{ ph: 'X', cat: 'request', name: 'stock', ts: asked * 1e3 },
    args: {
      ...{ id: i + 1, lock: 'stock', manager: 'host /tmp\nshop', mode: 'exclusive', thread: 0 },
      ...{ outcome: 'granted', contended: granted - asked > 1, waited: granted - asked },
      ...{ held: ended - granted, token: String(token), site: '', blockers: [] },
      ...more,
    },
  }));
  return { otherData: { host, zero, began: new Date(DAY + day).toISOString() }, traceEvents };
}

describe('profiles of several processes', () => {
  it('of one machine have one clock, whatever the time of day was', () => {
    const { requests, offsets } = merge([
      profile({ zero: 1000 }, [0, 0, 9, 1]),
      profile({ zero: 1500, day: 501 }, [0, 0, 9, 2]),
    ]);
    assert.deepEqual(offsets[1], { by: 0, from: 'same', within: 0 });
    assert.equal(requests.map(({ asked }) => asked).join(), '1000,1500');
  });

  it('of one machine have different clocks if it was started again between them', () => {
    const minute = 60_000;
    for (const zero of [5, 2000]) {
      const before = profile({ zero: 1000 }, [0, 0, 9, 1]);
      const after = profile({ zero, day: 10 * minute }, [0, 0, 9, 2]);
      const { offsets, requests } = merge([before, after]);
      const by = 10 * minute + 1000 - zero;
      assert.deepEqual(offsets[1], { by, from: 'tokens', within: Number.POSITIVE_INFINITY });
      assert.equal(requests[1].asked - requests[0].asked, 10 * minute);
    }
  });

  it('of two machines are aligned by tokens, or by the time of day where that agrees', () => {
    // The clock of the second one is 100 behind: 110 <= 12 + by, 28 + by <= 130.
    const first = profile({}, [0, 0, 110, 1], [0, 130, 140, 3]);
    const offsetFor = (day) =>
      merge([first, profile({ host: 'b', day }, [0, 12, 28, 2])]).offsets[1];
    assert.deepEqual(offsetFor(700), { by: 102, from: 'tokens', within: 2 });
    assert.equal(offsetFor(100).by, 100);
  });

  for (const [first, second] of [
    [{ outcome: 'stolen' }, {}],
    [{ mode: 'shared' }, { mode: 'shared' }],
  ]) {
    it(`are not aligned by locks that are ${Object.values(first)}`, () => {
      const one = profile({}, [0, 0, 500, 1, first]);
      const other = profile({ host: 'b' }, [0, 12, 28, 2, second]);
      assert.equal(merge([one, other]).offsets[1].from, 'day');
    });
  }

  it('are aligned through a third one if they have no name in common', () => {
    const prices = { lock: 'prices' };
    const { offsets } = merge([
      profile({}, [0, 0, 100, 1]),
      profile({ host: 'b' }, [0, 10, 20, 2], [0, 10, 30, 7, prices]),
      profile({ host: 'c' }, [0, 5, 6, 8, prices]),
    ]);
    // 100 <= 10 + b, 30 + b <= 5 + c.
    assert.equal(offsets.map(({ by }) => by).join(), '0,90,115');
  });

  it('have blockers of other processes, unless the lock is of one process', () => {
    const of = (more) =>
      merge([profile({}, [0, 0, 50, 1, more]), profile({}, [10, 51, 60, 2, more])]).requests;
    const [holder, waiter] = of({});
    assert.deepEqual([holder.process, waiter.process], [0, 1]);
    assert.deepEqual(waiter.blockers, [holder]);
    assert.deepEqual(of({ manager: 'process ' })[1].blockers, []);
  });

  it('of two real processes agree who held a lock of the machine when', async (t) => {
    const folder = freshDirectory(t);
    const script = path.join(folder, 'program.js');
    fs.writeFileSync(
      script,
      `const { openBucket } = require(${JSON.stringify(path.join(root, 'lib', 'host.js'))});
       (async () => {
         const { locks } = openBucket('shop', { directory: ${JSON.stringify(folder)} });
         for (let i = 0; i < 20; i++) {
           await locks.request('stock', () => new Promise((done) => setTimeout(done, 2)));
         }
       })();`,
    );
    const files = ['one.json', 'two.json'].map((name) => path.join(folder, name));
    const runOne = (file) =>
      promisify(execFile)(process.execPath, ['--import', preload, script], {
        env: { ...process.env, WEB_LOCKS_PROFILE: file },
      });
    await Promise.all(files.map(runOne));
    const { requests, offsets } = merge(files.map((file) => JSON.parse(fs.readFileSync(file))));
    assert.deepEqual(offsets[1], { by: 0, from: 'same', within: 0 });
    assert.equal(requests.length, 40);
    const held = [...requests];
    held.sort((a, b) => a.granted - b.granted);
    for (let i = 1; i < held.length; i++) {
      assert.ok(held[i - 1].ended <= held[i].granted, 'two hold it, by the clock of both');
      assert.ok(BigInt(held[i - 1].args.token) < BigInt(held[i].args.token));
    }
  });
});
