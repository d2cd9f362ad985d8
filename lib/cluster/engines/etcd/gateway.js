'use strict';

/**
 * Calls of etcd's JSON gateway, by transport.js, or by the user's `fetch`, which sees to client
 * certificates, proxies. A gateway has several endpoints, of which the next one is taken for each
 * connection; a connection stays with its endpoint.
 *
 * Neither our sockets nor those of Node's `fetch` (and undici's) keep the event loop alive for our
 * calls. With another `fetch` a watch does, until the bucket is closed.
 *
 * Threads: one. Errors: what is rejected with is of errors.js. What goes wrong in `fetch`, or with
 * what it gives, is a fault of the network, also if it is a TypeError, as `fetch` has them; only
 * what is thrown before it is called, or by who listens, stays as it is.
 */

const { channel } = require('node:diagnostics_channel');
const { AbortController } = require('../../../platform/realm.js');
const {
  isTlsFailure,
  isTokenOver,
  oddAnswerError,
  refusalOf,
  refusedError,
  staleError,
  unreachableError,
} = require('./errors.js');
const { leave, send } = require('./transport.js');
const { base64 } = require('./keys.js');
const { version } = require('../../../../package.json');

/** @typedef {(url: string, options: any) => Promise<any>} Fetch */
/** @typedef {{ user: string, password: string }} Auth */

const { TextDecoder } = globalThis;

const AGENT = `web-locks/${version}`;

/** With it etcd orders a transaction among the writes, though it is never done. */
const NEVER = [{ request_delete_range: { key: base64('web-locks/1-never') } }];

let isUnrefing = false;
/** Those of a user's `fetch`, if it is undici's, which tells what socket it is about to use. */
function unrefOurSockets() {
  if (isUnrefing) return;
  isUnrefing = true;
  channel('undici:client:sendHeaders').subscribe((/** @type {any} */ { request, socket }) => {
    if (String(request?.headers).includes(AGENT)) socket?.unref?.();
  });
}

class Gateway {
  /** What to say of where it is. */
  endpoint;
  #endpoints;
  #next = 0;
  #auth;
  #fetch;
  /** Has later calls at an endpoint make connections of their own. A `fetch` has its own way. */
  leave;
  /** The token of the user, if it is known; '' if etcd wants none. @type {string | undefined} */
  #token;

  /**
   * @param {object} options
   * @param {string[]} options.endpoints
   * @param {Auth} [options.auth]
   * @param {Fetch} [options.fetch]
   */
  constructor({ endpoints, auth, fetch }) {
    this.#endpoints = endpoints;
    this.#auth = auth;
    this.#fetch = fetch ?? send;
    this.leave = fetch ? () => {} : leave;
    this.endpoint = endpoints[0];
    if (fetch) unrefOurSockets();
  }

  get size() {
    return this.#endpoints.length;
  }

  /** @returns {Link} to the next endpoint */
  connect() {
    this.endpoint = this.#endpoints[this.#next % this.#endpoints.length];
    this.#next++;
    return new Link(this, this.endpoint);
  }

  /**
   * @param {number} offset
   * @returns {Link} to an endpoint: 0, that of the last connection; 1, the one after it
   */
  link(offset) {
    const at = this.#endpoints.indexOf(this.endpoint) + offset;
    return new Link(this, this.#endpoints[at % this.#endpoints.length]);
  }

  /**
   * @param {Link} link
   * @param {string} path
   * @param {string} text
   * @param {AbortSignal} signal
   * @returns {Promise<any>} a response that is one
   */
  async post(link, path, text, signal) {
    for (let isAgain = false; ; isAgain = true) {
      const headers = { ...(await this.#headers(link, signal)) };
      const response = await this.#send(link, path, text, headers, signal);
      if (response.status === 200) return response;
      const refusal = refusalOf(response.status, await read(link, response));
      if (!this.#auth || isAgain || !isTokenOver(refusal)) {
        throw refusedError(link.endpoint, refusal);
      }
      if (this.#token === (headers.authorization ?? '')) this.#token = undefined;
    }
  }

  /**
   * @param {Link} link
   * @param {string} path
   * @param {string} text
   * @param {Record<string, string>} headers
   * @param {AbortSignal} signal
   */
  async #send(link, path, text, headers, signal) {
    link.check();
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
    if (typeof response?.text !== 'function') throw oddAnswerError(link.endpoint);
    return response;
  }

  /**
   * @param {Link} link
   * @param {AbortSignal} signal
   * @returns {Promise<string | undefined>} which of http: and https: the server speaks, if it is
   *   the one that the URL of the endpoint does not have
   */
  async otherProtocol({ endpoint }, signal) {
    const [protocol, rest] = endpoint.split(/(?<=^https?:)/);
    const other = protocol === 'http:' ? 'https:' : 'http:';
    try {
      const options = { method: 'POST', headers: {}, body: '', signal };
      const response = await this.#fetch(`${other}${rest}/version`, options);
      await response.text();
      return other;
    } catch (/** @type {any} */ error) {
      // The server may have a certificate that nobody vouches for.
      return other === 'https:' && isTlsFailure({ cause: error }) ? other : undefined;
    } finally {
      this.leave(`${other}${rest}`);
    }
  }

  /**
   * @param {Link} link
   * @param {AbortSignal} signal
   * @returns {Promise<Record<string, string>>}
   */
  async #headers(link, signal) {
    if (!this.#auth) return {};
    this.#token ??= await this.#authenticate(link, this.#auth, signal);
    return this.#token ? { authorization: this.#token } : {};
  }

  /**
   * @param {Link} link
   * @param {Auth} auth
   * @param {AbortSignal} signal
   * @returns {Promise<string>} '' if etcd wants none
   */
  async #authenticate(link, { user, password }, signal) {
    const body = JSON.stringify({ name: user, password });
    const response = await this.#send(link, 'auth/authenticate', body, {}, signal);
    const text = await read(link, response);
    if (response.status === 200) {
      const token = jsonOf(text)?.token;
      if (typeof token !== 'string') throw oddAnswerError(link.endpoint);
      return token;
    }
    const refusal = refusalOf(response.status, text);
    if (refusal.message.includes('authentication is not enabled')) return '';
    throw refusedError(link.endpoint, refusal);
  }
}

/** A connection: calls at one endpoint, until it is dropped. */
class Link {
  #gateway;
  /** Of the calls under way. @type {Set<AbortController>} */
  #aborts = new Set();
  isDropped = false;
  /** The greatest revision of etcd that an answer, or a watch, has told. */
  revision = 0;

  /**
   * @param {Gateway} gateway
   * @param {string} endpoint
   */
  constructor(gateway, endpoint) {
    this.#gateway = gateway;
    this.endpoint = endpoint;
  }

  /**
   * @param {string} path
   * @param {object} body
   * @returns {Promise<any>} the answer, of a call that has one
   */
  async call(path, body) {
    // What goes wrong with this is no fault of the network.
    const request = JSON.stringify(body);
    const abort = this.#begin();
    try {
      const response = await this.#gateway.post(this, path, request, abort.signal);
      const text = await read(this, response);
      this.check();
      const answer = jsonOf(text);
      const { error, result } = answer ?? {};
      if (error) throw refusedError(this.endpoint, refusalOf(response.status, text));
      if (!(result ?? answer)?.header?.revision) throw oddAnswerError(this.endpoint);
      this.#saw(result ?? answer);
      return result ?? answer;
    } finally {
      this.#aborts.delete(abort);
    }
  }

  /**
   * Reads, as of no earlier time than anything that was known here before. Behind a load balancer
   * an answer can be of another member than the one before, and etcd 3.4.20 to 3.4.41, and 3.5
   * before 3.5.28, can answer of the past after a pause. Its revision shows that. Then the
   * same is read once more, in the order of the writes.
   * @param {object[]} ranges
   * @returns {Promise<{ header: any, found: any[] }>} what is found in each of them
   */
  async read(ranges) {
    const { revision } = this;
    const body = { compare: [], success: ranges.map((one) => ({ request_range: one })) };
    let answer = await this.call('kv/txn', body);
    if (Number(answer.header.revision) < revision) {
      answer = await this.call('kv/txn', { ...body, failure: NEVER });
    }
    const { header, responses } = answer;
    return { header, found: responses.map((/** @type {any} */ one) => one.response_range) };
  }

  /** @returns {Promise<string | undefined>} see Gateway */
  async otherProtocol() {
    const abort = this.#begin();
    try {
      return await this.#gateway.otherProtocol(this, abort.signal);
    } finally {
      this.#aborts.delete(abort);
    }
  }

  /** @param {any} answer */
  #saw({ header }) {
    this.revision = Math.max(this.revision, Number(header?.revision ?? 0));
  }

  /** @throws if it was dropped: what was asked on it is over */
  check() {
    if (this.isDropped) throw staleError();
  }

  /** A signal for each call: one for all would keep what each of them has left there. */
  #begin() {
    const abort = new AbortController();
    this.#aborts.add(abort);
    return abort;
  }

  /**
   * A watch. Only one: the gateway takes several in one request, but begins to answer when it has
   * made the first, and loses what it has not read of the others until then.
   * @param {object} watch
   * @param {(result: any) => void} hear is called with each part of the answer
   * @param {(error: unknown) => void} end is called when there will be no more, unless it was
   *   dropped or stopped
   * @returns {() => void} stops it
   */
  watch(watch, hear, end) {
    const text = JSON.stringify({ create_request: watch });
    const abort = this.#begin();
    const fail = (/** @type {unknown} */ error) => {
      if (!abort.signal.aborted) end(error);
    };
    this.#gateway
      .post(this, 'watch', text, abort.signal)
      .then((response) => this.#listen(response, abort.signal, hear, fail))
      .catch(fail);
    return () => {
      this.#aborts.delete(abort);
      abort.abort();
    };
  }

  /**
   * @param {any} response
   * @param {AbortSignal} signal
   * @param {(result: any) => void} hear
   * @param {(error: unknown) => void} end
   */
  async #listen(response, signal, hear, end) {
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
          this.#saw(result);
          const isGood = signal.aborted || tryTo(() => hear(result), end);
          if (!isGood) return;
        }
      }
    } catch (error) {
      reason = error;
    }
    end(unreachableError(this.endpoint, reason));
  }

  /** Nothing that was asked is answered any more, and what is asked next takes another way. */
  drop() {
    if (this.isDropped) return;
    this.isDropped = true;
    for (const abort of this.#aborts) abort.abort();
    this.#aborts.clear();
    this.#gateway.leave(this.endpoint);
  }
}

/** @param {string} line of a watch */
function resultOf(line) {
  const { error, result } = JSON.parse(line);
  if (!result) throw new Error(error?.message ?? line);
  return result;
}

/**
 * @param {() => void} work
 * @param {(error: unknown) => void} fail is called with what it throws
 * @returns {boolean} whether it went well
 */
function tryTo(work, fail) {
  try {
    work();
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

/**
 * @param {Link} link
 * @param {any} response
 * @returns {Promise<string>}
 */
async function read(link, response) {
  try {
    return await response.text();
  } catch (error) {
    throw unreachableError(link.endpoint, error);
  }
}

/** @param {string} text */
function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

module.exports = { Gateway, Link };
