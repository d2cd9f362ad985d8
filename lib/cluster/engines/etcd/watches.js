'use strict';

/**
 * The watches of a connection. The first one covers the news for the session, so a session that
 * waits for nothing is never woken by others. The second one covers the ends of sessions, by which
 * waiters can be granted something that nobody grants them. About `guards` of the waiters of a name
 * have it, chosen by lot: if all had it, the end of a session would be sent to each of them. Each
 * renewal looks after all names that the session waits for. So if none of the few is left, or their
 * watches are silent, the waiters lose time, but no lock.
 */

const { clearTimeout, setTimeout, unref } = require('../../../platform/intrinsics.js');
const { classify, staleError } = require('../errors.js');
const { noWatchEventsError, watchEndedError } = require('./errors.js');
const { textOf } = require('./keys.js');
const { allWith, only, range } = require('./operations.js');
const { Waits } = require('./waits.js');

const { random } = Math;

/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./etcd-session.js').EtcdSession>} Own */

class Watches {
  #own;
  #guards;
  /** The smaller it is, the sooner this session is one of the few. */
  #lot = random();
  /** @type {Link | undefined} */
  #link;
  /** The last revision of the session's news that was delivered. */
  #delivered = 0;
  #deliveries = new Waits();
  #stopNews = () => {};
  /** Ends the watch of the ends of sessions, if there is one. @type {(() => void) | undefined} */
  #stopEnds;
  #isLooking = false;
  #mustLook = false;

  /** @param {Own} own @param {number} guards */
  constructor(own, guards) {
    this.#own = own;
    this.#guards = guards;
  }

  /**
   * Watches over a new connection. Resolves with true once the first revision was delivered, and
   * with false if etcd no longer has it.
   * @param {Link} link @param {number} revision of the first change
   */
  async begin(link, revision) {
    this.#stop(staleError());
    this.#link = link;
    link.onEnd = (why) => {
      if (link === this.#link) this.#stop(why);
    };
    this.#delivered = 0;
    let isBegun = false;
    let isCompacted = false;
    const { keys, lease } = this.#own;
    const news = { ...allWith(keys.news(lease)), start_revision: String(revision) };
    this.#stopNews = link.watch(news, (result) => {
      if (!result.compact_revision) this.#handleNews(eventsOf(result));
      else if (isBegun) throw watchEndedError('the next revision was compacted');
      else {
        isCompacted = true;
        this.#stop(staleError());
      }
    });
    const timer = setTimeout(() => this.#stop(noWatchEventsError()), this.#own.ttl / 2);
    unref(timer);
    try {
      await this.waitForDelivery(revision);
      isBegun = true;
      if (this.#own.isQuarantined || this.#own.requests.waiting.size > 0) this.#watchEnds();
      return true;
    } catch (error) {
      if (isCompacted) return false;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Resolves when the first watch has delivered a revision. @param {number} revision */
  waitForDelivery(revision) {
    return this.#deliveries.until(() => this.#delivered >= revision);
  }

  /** @param {import('./operations.js').WatchEvent[]} events */
  #handleNews(events) {
    const own = this.#own;
    own.requests.applyNews(events.filter(({ type }) => type !== 'DELETE').map(({ kv }) => kv));
    for (const { type, kv } of events) {
      // The key that `sync` writes exists until the session ends.
      if (type === 'DELETE' && textOf(kv.key) === own.keys.sync(own.lease)) own.end();
      this.#delivered = Math.max(this.#delivered, Number(kv.mod_revision));
    }
    this.#deliveries.check();
  }

  /** Called when a request of the session waits. @param {number} count of the name's waiters */
  follow(count) {
    if (this.#lot * count < this.#guards) this.#watchEnds();
  }

  #watchEnds() {
    const link = this.#link;
    if (this.#stopEnds || !link || link.isDown) return;
    const { key, end } = this.#own.keys.ends;
    this.#stopEnds = link.watch({ ...range(key, end), filters: ['NOPUT'] }, (result) => {
      // A session may have ended before the watch began.
      if (eventsOf(result).length > 0 || result.created) this.look();
    });
  }

  /** Looks after the names that the session waits for; a failure ends the connection. */
  look() {
    const link = this.#link;
    this.#mustLook = true;
    if (this.#isLooking || !link || link.isDown) return;
    this.#isLooking = true;
    this.#lookAgain(link)
      .catch((error) => {
        // If the session is dead, the watch of its news shows that.
        if (classify(error) !== 'dead') link.fail(error);
      })
      .finally(() => {
        this.#isLooking = false;
      });
  }

  /** @param {Link} link */
  async #lookAgain(link) {
    while (this.#mustLook && link === this.#link) {
      this.#mustLook = false;
      await this.lookAfterNames(link);
    }
  }

  /**
   * Grants what can be granted of the names that the session waits for, and chooses anew whether
   * the session watches the ends of sessions.
   * @param {Link} link
   */
  async lookAfterNames(link) {
    const own = this.#own;
    const { keys } = own;
    if (own.isQuarantined) {
      const { found } = await link.read([{ ...only(keys.quarantine), count_only: true }]);
      if (found[0].count) return;
      own.endQuarantine();
    }
    const names = [...own.requests.waiting];
    if (names.length === 0) {
      this.#stopEnds?.();
      this.#stopEnds = undefined;
      return;
    }
    const ranges = names.flatMap(([name]) => [
      { ...allWith(keys.holders(name)), count_only: true },
      { ...allWith(keys.queue(name)), count_only: true },
    ]);
    const { found } = await own.read(ranges, link);
    const counts = found.map(({ count }) => Number(count ?? 0));
    for (const i of names.keys()) this.follow(counts[2 * i + 1]);
    // Only a shared request can be granted beside locks.
    const open = names.filter(([, isShared], i) => isShared || counts[2 * i] === 0);
    await Promise.all(open.map(([name]) => own.grantWaiters(name, link)));
  }

  /** Ends all watches, and rejects the waits under way. @param {unknown} error */
  #stop(error) {
    this.#stopNews();
    this.#stopEnds?.();
    this.#stopEnds = undefined;
    this.#deliveries.reject(error);
  }
}

/**
 * The events in a result; throws if etcd canceled the watch.
 * @param {any} result of a watch @returns {import('./operations.js').WatchEvent[]}
 */
function eventsOf({ canceled, cancel_reason: reason, events = [] }) {
  if (canceled) throw watchEndedError(reason);
  return events;
}

module.exports = { Watches };
