/**
 * Compares locks in etcd with the alternatives: `npm run bench -- --only etcd`. It starts a server
 * in a temporary folder (test/cluster/servers.js).
 *
 * - web-locks: a bucket, request and release
 * - steps: the two transactions that this needs, by bare `fetch`
 * - steps, http: the same two, by bare `http.request` and kept connections
 * - etcd3: the lock of the package etcd3, by gRPC: a lease for each lock, and no queue
 */

const http = require('node:http');

const { Missing } = require('./missing.js');
const { size } = require('./size.js');
const { ms, rank, row, wait } = require('./tools.js');

const ROUNDS = 8;
const PAIRS = size(40);
const HAND_OVERS = size(200);

/** The minimal lock, by calls of the gateway. */
async function steps(call) {
  const { ID: lease } = await call('lease/grant', { TTL: '60' });
  const key = Buffer.from(`bench/${lease}`).toString('base64');
  const none = { key, target: 'CREATE', result: 'EQUAL', create_revision: '0' };
  return {
    async run(_name, use) {
      const request_put = { key, value: '', lease };
      await call('kv/txn', { compare: [none], success: [{ request_put }] });
      await use();
      await call('kv/txn', { compare: [], success: [{ request_delete_range: { key } }] });
    },
    close: () => call('lease/revoke', { ID: lease }),
  };
}

const callByFetch = (url) => async (what, body) => {
  const options = { method: 'POST', body: JSON.stringify(body) };
  return (await fetch(`${url}/v3/${what}`, options)).json();
};

function callByHttp(url) {
  const agent = new http.Agent({ keepAlive: true });
  return (what, body) =>
    new Promise((resolve, reject) => {
      const request = http.request(`${url}/v3/${what}`, { agent, method: 'POST' });
      request.on('error', reject);
      request.on('response', (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (part) => {
          text += part;
        });
        response.on('end', () => resolve(JSON.parse(text)));
        response.on('error', reject);
      });
      request.end(JSON.stringify(body));
    });
}

/** Functions that lock a name, run a function and unlock it, by subject. */
const subjects = {
  steps: (url) => steps(callByFetch(url)),
  'steps, http': (url) => steps(callByHttp(url)),

  async 'web-locks'(url) {
    const { openBucket } = require('../lib/etcd.js');
    const bucket = openBucket('bench', { endpoints: [url] });
    await bucket.ready;
    return {
      locks: bucket.locks,
      run: (name, use) => bucket.locks.request(name, use),
      close: () => bucket.close(),
    };
  },

  async etcd3(url) {
    const { Etcd3 } = require('etcd3');
    const client = new Etcd3({ hosts: [url] });
    return {
      run: (name, use) => client.lock(name).ttl(10).do(use),
      close: () => client.close(),
    };
  },
};

async function uncontended(url) {
  console.log('\netcd, uncontended request and release, one after the other (ms)');
  const opened = {};
  const times = {};
  for (const name of Object.keys(subjects)) {
    opened[name] = await subjects[name](url);
    times[name] = [];
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, { run }] of Object.entries(opened)) {
      for (let i = 0; i < PAIRS; i++) {
        const from = ms();
        await run(`name of ${name}`, () => {});
        if (round > 0) times[name].push(ms() - from);
      }
    }
  }
  for (const { close } of Object.values(opened)) await close();
  const first = rank(times.steps, 0.5);
  for (const [name, values] of Object.entries(times)) {
    const [half, most] = [rank(values, 0.5), rank(values, 0.99)];
    const ratio = (half / first).toFixed(2);
    row(name, `p50 ${half.toFixed(2)}  p99 ${most.toFixed(2)}  ${ratio} × steps`);
  }
}

/**
 * Measures from the end of one client's use to the beginning of the other's. etcd3 has no such
 * time: it does not wait.
 */
async function handOver(url) {
  console.log('\netcd, hand-over between two buckets (ms)');
  const both = [await subjects['web-locks'](url), await subjects['web-locks'](url)];
  const gaps = [];
  let ended;
  const use = async () => {
    if (ended !== undefined) gaps.push(ms() - ended);
    // It is long enough that the other client waits.
    await wait(5);
    ended = ms();
  };
  const again = async ({ run }) => {
    for (let i = 0; i < HAND_OVERS; i++) await run('one', use);
  };
  await Promise.all(both.map(again));
  for (const { close } of both) await close();
  row('web-locks', `p50 ${rank(gaps, 0.5).toFixed(2)}  p99 ${rank(gaps, 0.99).toFixed(2)}`);
}

async function runEtcd() {
  const { lacks, startEtcd, stopAll } = require('../test/cluster/servers.js');
  if (lacks.etcd) throw new Missing(lacks.etcd);
  const server = await startEtcd();
  const [url] = server.endpoints;
  await uncontended(url);
  await handOver(url);
  await stopAll();
}

module.exports = { runEtcd, subjects };
