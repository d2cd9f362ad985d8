'use strict';

/**
 * Calls of etcd's JSON gateway, through transport.js or the user's `fetch`, which can add client
 * certificates and proxies. Each new connection uses the next endpoint, and keeps it. Calls do not
 * keep the event loop alive, except through a `fetch` that is neither Node's nor undici's. Every
 * error from `fetch` counts as a network error, even a TypeError, because `fetch` rejects with
 * TypeErrors when the network fails.
 */

const { channel } = require('node:diagnostics_channel');
const { AbortController } = require('../../../platform/realm.js');
const {
  isTlsFailure,
  isTokenInvalid,
  notEtcdError,
  refusalOf,
  refusedError,
  unreachableError,
} = require('./errors.js');
const { EngineLink } = require('../engine-adapter.js');
const { staleError } = require('../errors.js');
const { renewConnections, send } = require('./transport.js');
const { only, read, remove } = require('./operations.js');
const { version } = require('../../../../package.json');

/** @typedef {(url: string, options: any) => Promise<any>} Fetch */
/** @typedef {{ user: string, password: string }} Auth */

const { TextDecoder } = globalThis;

const AGENT = `web-locks/${version}`;

/**
 * A `failure` branch that never runs. But a transaction that contains a write, even in such a
 * branch, is executed in order with all writes.
 */
const NEVER = [remove(only('web-locks/1-never'))];

let isUnrefing = false;
/** Unrefs the sockets of a user's `fetch`, which undici announces for each request. */
function unrefOurSockets() {
  if (isUnrefing) return;
  isUnrefing = true;
  channel('undici:client:sendHeaders').subscribe((/** @type {any} */ { request, socket }) => {
    if (String(request?.headers).includes(AGENT)) socket?.unref?.();
  });
}

class Gateway {
  /** The endpoint of the latest connection. */
  endpoint;
  #endpoints;
  #next = 0;
  #auth;
  #fetch;
  /** Makes later calls to an endpoint use new connections, unless a user's `fetch` is used. */
  renewConnections;
  /** The user's token; '' if etcd requires none. @type {string | undefined} */
  #token;

  /** @param {{ endpoints: string[], auth?: Auth, fetch?: Fetch }} options */
  constructor({ endpoints, auth, fetch }) {
    this.#endpoints = endpoints;
    this.#auth = auth;
    this.#fetch = fetch ?? send;
    this.renewConnections = fetch ? () => {} : renewConnections;
    this.endpoint = endpoints[0];
    if (fetch) unrefOurSockets();
  }

  /** How many endpoints there are. */
  get size() {
    return this.#endpoints.length;
  }

  /** Returns a link to the next endpoint, which becomes the current one, without a call to it. */
  connect() {
    this.endpoint = this.#endpoints[this.#next % this.#endpoints.length];
    this.#next++;
    return new EtcdLink(this, this.endpoint);
  }

  /**
   * Returns a link to the endpoint `offset` places after the current one, which stays current.
   * @param {number} offset
   */
  makeLinkAfter(offset) {
    const at = this.#endpoints.indexOf(this.endpoint) + offset;
    return new EtcdLink(this, this.#endpoints[at % this.#endpoints.length]);
  }

  /**
   * Sends a call, and repeats it once with a new token if etcd rejects the token.
   * @param {EtcdLink} link @param {string} path @param {string} text @param {AbortSignal} signal
   * @returns {Promise<any>} a response of status 200
   */
  async post(link, path, text, signal) {
    for (let isAgain = false; ; isAgain = true) {
      const headers = { ...(await this.#authHeaders(link, signal)) };
      const response = await this.#send(link, path, text, headers, signal);
      if (response.status === 200) return response;
      const refusal = refusalOf(response.status, await readText(link, response));
      if (!this.#auth || isAgain || !isTokenInvalid(refusal)) {
        throw refusedError(link.endpoint, refusal);
      }
      if (this.#token === (headers.authorization ?? '')) this.#token = undefined;
    }
  }

  /**
   * @param {EtcdLink} link @param {string} path @param {string} text
   * @param {Record<string, string>} headers @param {AbortSignal} signal
   */
  async #send(link, path, text, headers, signal) {
    link.throwIfDropped();
    let response;
    try {
      response = await this.#fetch(`${link.endpoint}/v3/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'user-agent': AGENT, ...headers },
        body: text,
        signal,
      });
    } catch (error) {
      throw unreachableError(link.endpoint, error);
    }
    if (typeof response?.text !== 'function') throw notEtcdError(link.endpoint);
    return response;
  }

  /**
   * Returns the other protocol (https: for an http: URL, or the reverse) if the server speaks it.
   * @param {EtcdLink} link @param {AbortSignal} signal @returns {Promise<string | undefined>}
   */
  async findOtherProtocol({ endpoint }, signal) {
    const [protocol, rest] = endpoint.split(/(?<=^https?:)/);
    const other = protocol === 'http:' ? 'https:' : 'http:';
    try {
      const options = { method: 'POST', headers: {}, body: '', signal };
      const response = await this.#fetch(`${other}${rest}/version`, options);
      await response.text();
      return other;
    } catch (/** @type {any} */ error) {
      // Even a certificate from an unknown authority shows that the server speaks TLS.
      return other === 'https:' && isTlsFailure({ cause: error }) ? other : undefined;
    } finally {
      this.renewConnections(`${other}${rest}`);
    }
  }

  /**
   * @param {EtcdLink} link @param {AbortSignal} signal @returns {Promise<Record<string, string>>}
   */
  async #authHeaders(link, signal) {
    if (!this.#auth) return {};
    this.#token ??= await this.#authenticate(link, this.#auth, signal);
    return this.#token ? { authorization: this.#token } : {};
  }

  /**
   * @param {EtcdLink} link @param {Auth} auth @param {AbortSignal} signal
   * @returns {Promise<string>} a token; '' if etcd requires none
   */
  async #authenticate(link, { user, password }, signal) {
    const body = JSON.stringify({ name: user, password });
    const response = await this.#send(link, 'auth/authenticate', body, {}, signal);
    const text = await readText(link, response);
    if (response.status === 200) {
      const token = jsonOf(text)?.token;
      if (typeof token !== 'string') throw notEtcdError(link.endpoint);
      return token;
    }
    const refusal = refusalOf(response.status, text);
    if (refusal.message.includes('authentication is not enabled')) return '';
    throw refusedError(link.endpoint, refusal);
  }
}

/** Calls to one endpoint until the connection is dropped. */
class EtcdLink extends EngineLink {
  #gateway;
  /** The controllers of the calls under way. @type {Set<AbortController>} */
  #aborts = new Set();
  /** Called before `onDown`, and also if the link is dropped. @type {(why: unknown) => void} */
  onEnd = () => {};
  /** The greatest revision that an answer or a watch has shown. */
  revision = 0;

  /** @param {Gateway} gateway @param {string} endpoint */
  constructor(gateway, endpoint) {
    super();
    this.#gateway = gateway;
    this.endpoint = endpoint;
  }

  /** @param {string} path @param {object} body @returns {Promise<any>} */
  async call(path, body) {
    // If the body is too long, this line throws an error that `isLocal` recognizes.
    const request = JSON.stringify(body);
    const abort = this.#startCall();
    try {
      const response = await this.#gateway.post(this, path, request, abort.signal);
      const text = await readText(this, response);
      this.throwIfDropped();
      const answer = jsonOf(text);
      const { error, result } = answer ?? {};
      if (error) throw refusedError(this.endpoint, refusalOf(response.status, text));
      if (!(result ?? answer)?.header?.revision) throw notEtcdError(this.endpoint);
      this.#noteRevision(result ?? answer);
      return result ?? answer;
    } finally {
      this.#aborts.delete(abort);
    }
  }

  /**
   * Reads a state that is not older than any answer so far. If a load balancer distributes the
   * calls, a member may know less than the member that answered earlier. Etcd 3.4.20 to 3.4.41, 3.5
   * before 3.5.28, and 3.6 before 3.6.9 may also return an old state after a pause. If the revision
   * is too old, the read is repeated in a transaction that is ordered with the writes.
   * @param {object[]} ranges @returns {Promise<{ header: any, found: any[] }>}
   */
  async read(ranges) {
    const { revision } = this;
    const answer = await this.#readRanges(ranges, []);
    const isOld = Number(answer.header.revision) < revision;
    return isOld ? this.readAfterWrites(ranges) : answer;
  }

  /**
   * Reads as `read` does, in a transaction that is ordered with the writes.
   * @param {object[]} ranges @returns {Promise<{ header: any, found: any[] }>}
   */
  readAfterWrites(ranges) {
    return this.#readRanges(ranges, NEVER);
  }

  /**
   * Reads in one transaction, which `NEVER` as `failure` orders with all writes.
   * @param {object[]} ranges @param {object[]} failure
   */
  async #readRanges(ranges, failure) {
    const { header, responses } = await this.transact([], ranges.map(read), failure);
    return { header, found: responses.map((/** @type {any} */ one) => one.response_range) };
  }

  /**
   * Makes changes if all conditions hold, and otherwise what `failure` says.
   * @param {object[]} compare @param {object[]} success @param {object[]} [failure]
   */
  transact(compare, success, failure) {
    return this.call('kv/txn', { compare, success, failure });
  }

  /** @param {number} milliseconds @param {string} [ID] by default etcd chooses one */
  grantLease(milliseconds, ID) {
    return this.call('lease/grant', { ID, TTL: String(Math.ceil(milliseconds / 1_000)) });
  }

  /** How many milliseconds of a lease are left at most. @param {string} lease */
  async leaseLeft(lease) {
    const { TTL } = await this.call('lease/timetolive', { ID: lease });
    // Etcd rounds down to seconds, and leaves 0 out; of a lease that is over, it says -1.
    return (Number(TTL ?? 0) + 1) * 1_000;
  }

  /** Calls `Gateway.findOtherProtocol` for this endpoint. @returns {Promise<string | undefined>} */
  async findOtherProtocol() {
    const abort = this.#startCall();
    try {
      return await this.#gateway.findOtherProtocol(this, abort.signal);
    } finally {
      this.#aborts.delete(abort);
    }
  }

  /** @param {any} answer */
  #noteRevision({ header }) {
    this.revision = Math.max(this.revision, Number(header?.revision ?? 0));
  }

  /** @throws if the connection was dropped */
  throwIfDropped() {
    if (this.isDown) throw staleError();
  }

  /**
   * Returns the controller of a call, which `drop` aborts. Each call has its own signal, since a
   * shared one would collect the listeners of all calls.
   */
  #startCall() {
    const abort = new AbortController();
    this.#aborts.add(abort);
    return abort;
  }

  /**
   * Starts a watch; the returned function stops it. Each watch has a request of its own. (The
   * gateway accepts several watches in one request. But it begins to respond once it has created
   * the first one, and drops those that it has not read by then.) If the watch breaks by itself,
   * the link fails.
   * @param {object} watch @param {(result: any) => void} onResult receives each part of the answer
   */
  watch(watch, onResult) {
    const text = JSON.stringify({ create_request: watch });
    const abort = this.#startCall();
    const fail = (/** @type {unknown} */ error) => {
      if (!abort.signal.aborted) this.fail(error);
    };
    this.#gateway
      .post(this, 'watch', text, abort.signal)
      .then((response) => this.#readEvents(response, abort.signal, onResult, fail))
      .catch(fail);
    return () => {
      this.#aborts.delete(abort);
      abort.abort();
    };
  }

  /**
   * Passes each result of a watch to `onResult` until the answer ends or `onResult` throws, and
   * then calls `end`.
   * @param {any} response @param {AbortSignal} signal @param {(result: any) => void} onResult
   * @param {(error: unknown) => void} end
   */
  async #readEvents(response, signal, onResult, end) {
    /** @type {unknown} */
    let reason = 'the watch has ended';
    try {
      const decoder = new TextDecoder();
      let rest = '';
      for await (const chunk of response.body) {
        const lines = decoder.decode(chunk, { stream: true }).split('\n');
        lines[0] = rest + lines[0];
        rest = String(lines.pop());
        for (const result of lines.filter(Boolean).map(resultOf)) {
          this.#noteRevision(result);
          try {
            if (!signal.aborted) onResult(result);
          } catch (error) {
            end(error);
            return;
          }
        }
      }
    } catch (error) {
      reason = error;
    }
    end(unreachableError(this.endpoint, reason));
  }

  /** Makes later calls use new connections, too. @override @param {unknown} why */
  end(why) {
    for (const abort of this.#aborts) abort.abort();
    this.#aborts.clear();
    this.#gateway.renewConnections(this.endpoint);
    this.onEnd(why);
  }
}

/** The result in a line; throws if the line has none. @param {string} line of a watch's answer */
function resultOf(line) {
  const { error, result } = JSON.parse(line);
  if (!result) throw new Error(error?.message ?? line);
  return result;
}

/** @param {EtcdLink} link @param {any} response @returns {Promise<string>} */
async function readText(link, response) {
  try {
    return await response.text();
  } catch (error) {
    throw unreachableError(link.endpoint, error);
  }
}

/** The parsed text; undefined if it is not JSON. @param {string} text */
function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

module.exports = { Gateway, EtcdLink };
