'use strict';

/**
 * How calls are sent, unless the user gives a `fetch`: by Node's client for HTTP, which takes less
 * of the processor's time than its `fetch` does. It has of `fetch` what gateway.js uses. A redirect
 * is not followed (etcd has none). Neither undici's global dispatcher nor the environment's proxies
 * count.
 *
 * Connections are kept for later calls, those of all buckets of a thread together, and are ended
 * when nobody has used them for a while, or their endpoint is left. None of them keeps the event
 * loop alive, once it is made.
 *
 * Threads: one. Errors: whatever goes wrong rejects the call, or its text, or ends its body with an
 * error; an answer that is cut off is never taken for a whole one, so one that ends with its
 * connection is refused.
 */

const { Buffer } = require('node:buffer');
const http = require('node:http');
const https = require('node:https');
const { URL } = require('node:url');
const { Promise } = require('../../../platform/intrinsics.js');
const { argumentError, plainError } = require('../../../platform/errors.js');

/** @typedef {import('node:http').Agent} Agent */
/** @typedef {import('node:http').IncomingMessage} Incoming */
/** @typedef {import('node:net').Socket} Socket */

/** How long a connection is kept that nobody uses; for one that is used it means nothing. */
const IDLE = 4_000;

/** By protocol: what was there when this was loaded. */
const CLIENTS = {
  'http:': { begin: http.request, Agent: http.Agent },
  'https:': { begin: https.request, Agent: https.Agent },
};

/** By origin: what has its connections. @type {Map<string, Agent>} */
const agents = new Map();

/**
 * @param {string} origin
 * @param {typeof http.Agent} Agent of its protocol
 */
function agentOf(origin, Agent) {
  const agent = agents.get(origin) ?? new Agent({ keepAlive: true, timeout: IDLE });
  agents.set(origin, agent);
  return agent;
}

/**
 * Later calls make connections of their own: at one address there may be several members, behind a
 * load balancer. Calls under way go on; their connections end with them.
 * @param {string} url of the endpoint that is left
 */
function leave(url) {
  // Where a URL is none, no call was sent.
  const origin = URL.canParse(url) ? new URL(url).origin : '';
  const agent = agents.get(origin);
  if (!agent) return;
  agents.delete(origin);
  agent.maxFreeSockets = 0;
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}

/**
 * @param {string} url
 * @param {object} options
 * @param {string} options.method
 * @param {Record<string, string>} options.headers
 * @param {string} options.body
 * @param {AbortSignal} options.signal
 * @returns {Promise<{ status: number, body: AsyncIterable<Buffer>, text: () => Promise<string> }>}
 */
function send(url, { method, headers, body, signal }) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) throw signal.reason;
    const target = new URL(url);
    if (target.username || target.password) {
      throw argumentError("The URL has a user or a password: give the 'auth' option instead.");
    }
    const { Agent, begin } = CLIENTS[/** @type {keyof typeof CLIENTS} */ (target.protocol)];
    const agent = agentOf(target.origin, Agent);
    const request = begin(target, { agent, method, headers });
    /** What an abort ends. @type {{ destroy: (reason: Error) => unknown }} */
    let current = request;
    request.on('socket', leaveLoop);
    request.on('error', reject);
    // Without an error, if what answers wants to go on by another protocol.
    request.on('close', () => {
      if (current === request) reject(new Error('there was no answer'));
    });
    request.on('response', (response) => {
      current = response;
      if (!tellsItsEnd(response)) {
        response.destroy();
        reject(plainError('the answer does not tell its length', 'NO_LENGTH'));
        return;
      }
      const status = Number(response.statusCode);
      resolve({ status, body: response, text: () => textOf(response) });
    });
    // Not the request alone, as the option `signal` has it: what has come of the answer would be
    // taken for all of it.
    signal.addEventListener('abort', () => current.destroy(signal.reason));
    request.end(body);
  });
}

/**
 * @param {Incoming} response
 * @returns {boolean} whether it can be told from one that is cut off; etcd's can
 */
function tellsItsEnd({ headers }) {
  const isChunked = /\bchunked$/i.test(headers['transfer-encoding'] ?? '');
  return isChunked || headers['content-length'] !== undefined;
}

/**
 * A call does not keep the event loop alive. An agent does this for those that nobody uses.
 * @param {Socket} socket
 */
function leaveLoop(socket) {
  socket.unref();
  // Where a host has several addresses, the one that answers has another handle.
  if (socket.connecting) socket.once('connect', () => socket.unref());
}

/**
 * @param {Incoming} response
 * @returns {Promise<string>}
 */
function textOf(response) {
  return new Promise((resolve, reject) => {
    if (response.destroyed) throw response.errored ?? new Error('the answer was cut off');
    /** @type {Buffer[]} */
    const chunks = [];
    response.on('data', (chunk) => chunks.push(chunk));
    // Decoded as a whole: a character may be in two chunks.
    response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    response.on('error', reject);
  });
}

module.exports = { leave, send };
