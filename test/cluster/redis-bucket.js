'use strict';

/**
 * A bucket, or a shard of one, as Redis stores it. Tests use it to do to the keys what time and
 * administrators do, and to check that they fit together.
 */

const assert = require('node:assert/strict');

class StoredBucket {
  #call;

  /**
   * @param {{ call: (...args: string[]) => Promise<string[]> }} server
   * @param {string} bucket
   * @param {number} [shard]
   */
  constructor(server, bucket, shard = 0) {
    this.#call = (...args) => server.call(...args.map(String));
    this.prefix = `{wl:${bucket}${shard > 0 ? `#${shard}` : ''}}`;
  }

  /** Runs a command on a key of the bucket. */
  call(command, key, ...args) {
    return this.#call(command, `${this.prefix}:${key}`, ...args);
  }

  async keys(pattern = '*') {
    const keys = await this.#call('KEYS', `${this.prefix}:${pattern}`);
    return keys.filter((key) => key).map((key) => key.slice(this.prefix.length + 1));
  }

  async delete(...keys) {
    for (const key of keys) await this.call('DEL', key);
  }

  async get(field) {
    const [value] = await this.call('HGET', 'm', field);
    return value;
  }

  set(...fields) {
    return this.call('HSET', 'm', ...fields);
  }

  async now() {
    const [seconds] = await this.#call('TIME');
    return Number(seconds) * 1_000;
  }

  /** Ends a quarantine just now, so that a sweep grants the requests that waited for its end. */
  async endQuarantine() {
    await this.set('from', await this.now());
  }

  /** Ends a lease, as time would; no sweep extends it, as if after a jump of the clock. */
  async expire(session) {
    const past = (await this.now()) - 1_000;
    await this.call('HSET', `i:${session}`, 'graced', 1, 'till', past);
    await this.call('ZADD', 's', past, session);
  }

  async leaseEnd(session) {
    const [end] = await this.call('ZSCORE', 's', session);
    return Number(end);
  }

  /** Counts the keys and entries of a session. */
  async left(session) {
    const keys = await this.keys(`[it]:${session}`);
    const [rank] = await this.call('ZRANK', 's', session);
    return keys.length + (rank === '' ? 0 : 1);
  }

  /** The milliseconds after which each key expires; -1 for never. */
  async lives() {
    const lives = new Map();
    for (const key of await this.keys()) {
      const [life] = await this.call('PTTL', key);
      lives.set(key, Number(life));
    }
    return lives;
  }

  #run(script, ...args) {
    return this.#call('EVAL', script, 1, this.prefix, ...args);
  }

  /** Makes all times of the bucket earlier. A mark that is over stays over. */
  shift(milliseconds) {
    return this.#run(SHIFT, milliseconds);
  }

  /** Deletes the queues, which the script rebuilds from the rows of names. */
  deleteQueues() {
    return this.#run(DELETE_QUEUES);
  }

  async verify() {
    assert.deepEqual(await this.#run(VERIFY), ['']);
  }
}

/**
 * Makes a bucket known to its server, so that it begins without a quarantine. Disposes the adapter.
 */
async function introduce(adapter) {
  const { session } = await adapter.open({ clientId: 'first' }, 1, { life: '', token: 0n });
  await adapter.close(session);
  await adapter.dispose();
}

const SHIFT = `
  local P, by, call = KEYS[1], tonumber(ARGV[1]), redis.call
  local function move(hash, ...)
    for _, field in ipairs({ ... }) do
      local at = tonumber(call('HGET', hash, field) or 0)
      if at > 0 then call('HSET', hash, field, string.format('%.0f', at - by)) end
    end
  end
  move(P .. ':m', 'from', 'renewed', 'missed')
  for _, key in ipairs(call('KEYS', P .. ':i:*')) do move(key, 'till', 'kept') end
  local time = call('TIME')
  local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  for all, since in pairs({ [':s'] = '0', [':k'] = now }) do
    for _, one in ipairs(call('ZRANGEBYSCORE', P .. all, '(' .. since, '+inf')) do
      call('ZINCRBY', P .. all, string.format('%.0f', -by), one)
    end
  end`;

const DELETE_QUEUES = `for _, key in ipairs(redis.call('KEYS', KEYS[1] .. ':q:*')) do
  redis.call('DEL', key) end`;

/**
 * Lists what is wrong: keys that never expire, requests that are known only in one place, and
 * queues whose first requests are not the locks that their hash counts.
 */
const VERIFY = `
  local P, call, wrong = KEYS[1], redis.call, {}
  local function expect(is, ...)
    if not is then wrong[#wrong + 1] = table.concat({ ... }, ' ') end
  end
  local function each(pattern, check)
    for _, key in ipairs(call('KEYS', P .. pattern)) do check(key, string.sub(key, #P + 4)) end
  end
  local function has(kind, of) return call('EXISTS', P .. kind .. of) == 1 end
  local function requests_of(name)
    local own = call('GET', P .. ':n:' .. name)
    if own ~= 'q' then return { string.match(own or '', '^%S+') } end
    local all = {}
    for _, field in ipairs(call('HKEYS', P .. ':r:' .. name)) do
      if string.find(field, '|', 1, true) then all[#all + 1] = field end
    end
    return all
  end
  each(':*', function(key)
    expect(key == P .. ':m' or call('PTTL', key) ~= -1, key, 'never expires')
  end)
  each(':n:*', function(key, name)
    local all, is_single = requests_of(name), call('GET', key) ~= 'q'
    expect(#all > 0, key, 'has no request')
    expect(not is_single or not has(':q:', name) and not has(':r:', name), key, 'has a queue')
    local queued = call('ZCARD', P .. ':q:' .. name)
    expect(is_single or queued == 0 or queued == #all, key, 'has another queue')
    local held, units, alone = 0, 0, 0
    for i, entry in ipairs(queued == #all and call('ZRANGE', P .. ':q:' .. name, 0, -1) or {}) do
      local row = call('HGET', P .. ':r:' .. name, string.sub(entry, 18)) or ''
      local mode, weight, token = string.match(row, '^%S+ (%a) (%d+) (%d+) ')
      if token and token ~= '0' then
        expect(held == i - 1, key, 'has a lock behind a request that waits')
        held, units, alone = held + 1, units + weight, mode == 'x' and 1 or 0
      end
    end
    local sums = { held = held, units = units, alone = alone }
    for field, sum in pairs(queued == #all and sums or {}) do
      local stored = call('HGET', P .. ':r:' .. name, field) or 0
      expect(is_single or tonumber(stored) == sum, key, field, stored, 'instead of', sum)
    end
    for _, member in ipairs(all) do
      local ref, session = string.match(member, '^(%d+)|(.*)$')
      expect(call('HGET', P .. ':i:' .. session, 'r' .. ref) == name, key, 'has an unknown', member)
    end
  end)
  for _, kind in ipairs({ ':q:', ':r:' }) do
    each(kind .. '*', function(key, name) expect(has(':n:', name), key, 'is of no name') end)
  end
  each(':i:*', function(key, session)
    for _, field in ipairs(call('HKEYS', key)) do
      local kind, ref = string.match(field, '^([dr])(%d+)$')
      local name, is_there = kind and call('HGET', key, 'r' .. ref), false
      for _, member in ipairs(name and requests_of(name) or {}) do
        is_there = is_there or member == ref .. '|' .. session
      end
      expect(not kind or is_there, key, field, 'is of no request')
    end
  end)
  expect(call('ZCARD', P .. ':k') == call('HLEN', P .. ':w'), 'marks are not those of markers')
  each(':t:*', function(key, session) expect(has(':i:', session), key, 'is of no session') end)
  return wrong`;

module.exports = { StoredBucket, introduce };
