'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { merge } = require('../../lib/profile/merge.js');
const { folderFor, preload, root } = require('./run.js');

const DAY = Date.parse('2026-01-01T00:00:00.000Z');

/**
 * The profile of a process. Its requests have times of its own clock, which was 0 when it began.
 * @param {object} process
 * @param {string} [process.host]
 * @param {number} [process.zero] its monotonic clock then
 * @param {number} [process.day] milliseconds of the day by which its clock of the day begins
 * @param {object[]} process.requests `{ asked, granted, ended, token, … }`
 */
function profile({ host = 'a', zero = 0, day = 0, requests }) {
  const traceEvents = requests.map(({ asked, granted, ended, token, ...more }, i) => ({
    ph: 'X',
    cat: 'request',
    name: 'stock',
    ts: asked * 1e3,
    args: {
      id: i + 1,
      lock: 'stock',
      manager: 'host /tmp\nshop',
      mode: 'exclusive',
      thread: 0,
      outcome: 'granted',
      contended: granted - asked > 1,
      waited: granted - asked,
      held: ended - granted,
      token: String(token),
      site: '',
      blockers: [],
      ...more,
    },
  }));
  return { otherData: { host, zero, began: new Date(DAY + day).toISOString() }, traceEvents };
}

const offsetOf = (...processes) => merge(processes.map(profile)).offsets[1];

describe('profiles of several processes', () => {
  it('of one machine have one clock, however the clock of the day was set', () => {
    const { requests, offsets } = merge([
      profile({ zero: 1000, requests: [{ asked: 0, granted: 0, ended: 9, token: 1 }] }),
      profile({ zero: 1500, day: 501, requests: [{ asked: 0, granted: 0, ended: 9, token: 2 }] }),
    ]);
    assert.deepEqual(offsets[1], { by: 0, from: 'same', within: 0 });
    assert.deepEqual(
      requests.map(({ asked }) => asked),
      [1000, 1500],
    );
  });

  it('of two machines are put between what the tokens of both tell', () => {
    // The second one's clock is 100 behind: what it calls 0 is 100 of the first. Its day is wrong.
    const first = [
      { asked: 0, granted: 0, ended: 110, token: 1 },
      { asked: 0, granted: 130, ended: 140, token: 3 },
    ];
    const second = {
      host: 'b',
      day: 700,
      requests: [{ asked: 0, granted: 12, ended: 28, token: 2 }],
    };
    const { by, from, within } = offsetOf({ requests: first }, second);
    assert.equal(from, 'tokens');
    // 110 <= 12 + by, 28 + by <= 130.
    assert.equal(by, 102);
    assert.equal(within, 2);
  });

  it('a clock of the day that agrees with the tokens counts', () => {
    const first = [
      { asked: 0, granted: 0, ended: 110, token: 1 },
      { asked: 0, granted: 130, ended: 140, token: 3 },
    ];
    const second = {
      host: 'b',
      day: 100,
      requests: [{ asked: 0, granted: 12, ended: 28, token: 2 }],
    };
    assert.equal(offsetOf({ requests: first }, second).by, 100);
  });

  it('locks that were stolen or shared tell nothing of the clocks', () => {
    const stolen = [{ asked: 0, granted: 0, ended: 500, token: 1, outcome: 'stolen' }];
    const second = { host: 'b', requests: [{ asked: 0, granted: 12, ended: 28, token: 2 }] };
    assert.equal(offsetOf({ requests: stolen }, second).from, 'day');
    const shared = [{ asked: 0, granted: 0, ended: 500, token: 1, mode: 'shared' }];
    const other = [{ asked: 0, granted: 12, ended: 28, token: 2, mode: 'shared' }];
    assert.equal(offsetOf({ requests: shared }, { host: 'b', requests: other }).from, 'day');
  });

  it('through a third one, those that have no name in common', () => {
    const one = profile({ requests: [{ asked: 0, granted: 0, ended: 100, token: 1 }] });
    const two = profile({
      host: 'b',
      requests: [
        { asked: 0, granted: 10, ended: 20, token: 2 },
        { asked: 0, granted: 10, ended: 30, token: 7, lock: 'prices' },
      ],
    });
    const three = profile({
      host: 'c',
      requests: [{ asked: 0, granted: 5, ended: 6, token: 8, lock: 'prices' }],
    });
    const { offsets } = merge([one, two, three]);
    // 100 <= 10 + b, 30 + b <= 5 + c.
    assert.deepEqual(
      offsets.map(({ by }) => by),
      [0, 90, 115],
    );
  });

  it('tell who of one waited for whom of the other', () => {
    const { requests } = merge([
      profile({ requests: [{ asked: 0, granted: 0, ended: 50, token: 1 }] }),
      profile({ requests: [{ asked: 10, granted: 51, ended: 60, token: 2 }] }),
    ]);
    const [holder, waiter] = requests;
    assert.deepEqual([holder.process, waiter.process], [0, 1]);
    assert.deepEqual(waiter.blockers, [holder]);
  });

  it('locks within a process are of that one alone', () => {
    const { requests } = merge([
      profile({
        requests: [{ asked: 0, granted: 0, ended: 50, token: 1, manager: 'process ' }],
      }),
      profile({
        requests: [{ asked: 10, granted: 51, ended: 60, token: 2, manager: 'process ' }],
      }),
    ]);
    assert.deepEqual(requests[1].blockers, []);
  });

  it('real ones: two processes that want one lock of the machine', async (t) => {
    const folder = folderFor(t);
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
    await Promise.all(
      files.map((file) =>
        promisify(execFile)(process.execPath, ['--import', preload, script], {
          env: { ...process.env, WEB_LOCKS_PROFILE: file },
        }),
      ),
    );
    const traces = files.map((file) => JSON.parse(fs.readFileSync(file, 'utf8')));
    const { requests, offsets } = merge(traces);
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
