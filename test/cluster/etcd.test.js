// slow: 93; long; waits; needs: etcd

'use strict';

/** Tests several processes that share locks in etcd, under the faults of faults.js. */

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');

const { LONG, TTL, faults, judge, leftInTheEnd, stageOf, timeOf, wait } = require('./faults.js');
const { lacks, startEtcd } = require('./servers.js');

const base64 = (text) => Buffer.from(text).toString('base64');

/**
 * Counts what is left at a server. A bucket that was used leaves only marks, and the leases of
 * killed processes end by themselves, in up to two `ttl`s.
 */
const left = (server) =>
  leftInTheEnd(async () => {
    const range = {
      key: base64('web-locks/1/'),
      range_end: base64('web-locks/10'),
      count_only: true,
    };
    const { count } = await server.call('kv/range', range);
    return { keys: Number(count ?? 0) };
  });

const urlOf = (port) => `http://127.0.0.1:${port}`;

const engine = {
  name: 'etcd',
  marksOutlast: true,
  start: () => startEtcd(),
  configOf: (port) => ({ endpoints: [urlOf(port)] }),
  left,
};

const reasonsOf = (stage) =>
  stage.events.filter(({ type }) => type === 'told').map(({ reason }) => reason);

/** Starts a process that holds a lock, and another one that waits for it. */
async function contended(stage, options = {}) {
  const [holder, waiter] = await Promise.all([stage.actor(), stage.actor(options)]);
  const held = holder.request('name');
  await held.granted();
  const next = waiter.request('name', {}, 10);
  await next.asked();
  return { holder, waiter, held, next };
}

describe('etcd, by several processes', { skip: lacks.etcd }, () => {
  faults(engine);

  describe('of three members', () => {
    /** The configuration of a process that connects to one member first, and knows the others. */
    const configOf = ({ endpoints }, first) => ({
      endpoints: [...endpoints.slice(first), ...endpoints.slice(0, first)],
    });

    for (const [how, harm, mend] of [
      ['ends', (own, member) => own.stop('SIGKILL', member), (own, member) => own.start(member)],
      [
        'stands still',
        async (own, member) => own.signal('SIGSTOP', member),
        async (own, member) => own.signal('SIGCONT', member),
      ],
    ])
      for (const who of ['that sessions are connected to', 'that leads'])
        test(`no lock is lost if the member ${who} ${how}`, async () => {
          const own = await startEtcd(3);
          const leader = own.members.indexOf(await own.leader());
          const first = who === 'that leads' ? leader : (leader + 1) % 3;
          const stage = stageOf(engine, own.port, { ttl: LONG, config: configOf(own, first) });
          const { holder, held, next } = await contended(stage);
          stage.fault();
          await harm(own, own.members[first]);
          await wait(2 * TTL);
          held.release();
          await Promise.all([held.settled(), next.settled()]);
          await mend(own, own.members[first]);
          stage.fault();
          await holder.request('name', {}, 10).settled();
          await stage.close();
          assert.deepEqual(reasonsOf(stage), []);
          judge(stage, { left: await left(own) });
          await own.stop();
        });

    test('without a quorum locks are lost, and nothing is granted before that', async () => {
      const own = await startEtcd(3);
      // The lease is long enough for the holder to renew it on a slow machine, too.
      const stage = stageOf(engine, own.port, { ttl: 6 * TTL, config: configOf(own, 0) });
      const config = configOf(own, 2);
      const { holder, waiter, held, next } = await contended(stage, { config });
      stage.fault();
      const two = own.members.slice(0, 2);
      for (const member of two) await own.signal('SIGSTOP', member);
      const other = waiter.request('other', {}, 10);
      await held.settled();
      assert.deepEqual(
        [next, other].map(({ known }) => known.granted),
        [undefined, undefined],
      );
      for (const member of two) await own.signal('SIGCONT', member);
      stage.fault();
      await Promise.all([next.settled(), other.settled()]);
      assert.ok(timeOf(stage, 'told', holder) < timeOf(stage, 'granted', waiter), 'told before');
      await stage.close();
      // Sessions whose opening was not answered end by themselves.
      while ((await left(own)).keys > 0);
      judge(stage);
      await own.stop();
    });
  });
});
