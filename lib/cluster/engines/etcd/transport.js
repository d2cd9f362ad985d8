'use strict';

/**
 * Sends calls if the user gives no `fetch`. It uses Node's HTTP client, which takes less CPU time
 * than Node's `fetch`. It follows no redirects, and ignores undici's global dispatcher and the
 * proxy environment variables. All buckets of a thread share the connections. Once a connection is
 * established, it never keeps the event loop alive.
 */

const { Buffer } = require('node:buffer');
const http = require('node:http');
const https = require('node:https');
const { URL } = require('node:url');
const { Promise } = require('../../../platform/intrinsics.js');
const { argumentError, plainError } = require('../../../platform/errors.js');

/** @import { Agent, IncomingMessage as Incoming } from 'node:http' */
/** @import { Socket } from 'node:net' */

/** How many milliseconds an unused connection is kept. */
const IDLE = 4_000;

/** The HTTP client of each protocol, as it was when this module was loaded. */
const CLIENTS = {
  'http:': { begin: http.request, Agent: http.Agent },
  'https:': { begin: https.request, Agent: https.Agent },
};

/** The connections of each origin. @type {Map<string, Agent>} */
const agents = new Map();

/** @param {string} origin @param {typeof http.Agent} Agent of its protocol */
function agentOf(origin, Agent) {
  const agent = agents.get(origin) ?? new Agent({ keepAlive: true, timeout: IDLE });
  agents.set(origin, agent);
  return agent;
}

/** Makes later calls use new connections, maybe to another member. @param {string} url */
function renewConnections(url) {
  // An invalid URL has no connections.
  const origin = URL.canParse(url) ? new URL(url).origin : '';
  const agent = agents.get(origin);
  if (!agent) return;
  agents.delete(origin);
  agent.maxFreeSockets = 0;
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}

/**
 * @param {string} url @param {object} options @param {string} options.method
 * @param {Record<string, string>} options.headers @param {string} options.body
 * @param {AbortSignal} options.signal
 * @returns {Promise<{ status: number, body: AsyncIterable<Buffer>, text: () => Promise<string> }>}
 */
function send(url, { method, headers, body, signal }) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) throw signal.reason;
    const target = new URL(url);
    if (target.username || target.password) {
      throw argumentError("The URL contains a user or a password: use the 'auth' option instead.");
    }
    const { Agent, begin } = CLIENTS[/** @type {keyof typeof CLIENTS} */ (target.protocol)];
    const agent = agentOf(target.origin, Agent);
    const request = begin(target, { agent, method, headers });
    /** @type {{ destroy: (reason: Error) => unknown }} the request, or later its response */
    let current = request;
    request.on('socket', unrefSocket);
    request.on('error', reject);
    // If the server switches protocols, 'close' comes without an error.
    request.on('close', () => {
      if (current === request) reject(new Error('there was no response'));
    });
    request.on('response', (response) => {
      current = response;
      if (!hasVisibleEnd(response)) {
        response.destroy();
        reject(plainError('the response has neither a Content-Length nor chunks', 'NO_LENGTH'));
        return;
      }
      const status = Number(response.statusCode);
      resolve({ status, body: response, text: () => textOf(response) });
    });
    // The option `signal` would abort only the request, and a partial response would look complete.
    signal.addEventListener('abort', () => current.destroy(signal.reason));
    request.end(body);
  });
}

/**
 * Whether the response states its end, like all of etcd's. Otherwise a truncation goes unnoticed.
 * @param {Incoming} response
 */
function hasVisibleEnd({ headers }) {
  const isChunked = /\bchunked$/i.test(headers['transfer-encoding'] ?? '');
  return isChunked || headers['content-length'] !== undefined;
}

/** Unrefs a socket in use; the agent unrefs only unused ones. @param {Socket} socket */
function unrefSocket(socket) {
  socket.unref();
  // Until 'connect', the socket may still switch handles between addresses.
  if (socket.connecting) socket.once('connect', () => socket.unref());
}

/** @param {Incoming} response @returns {Promise<string>} */
function textOf(response) {
  return new Promise((resolve, reject) => {
    if (response.destroyed) throw response.errored ?? new Error('the response was cut off');
    /** @type {Buffer[]} */
    const chunks = [];
    response.on('data', (chunk) => chunks.push(chunk));
    // A character may be split between two chunks.
    response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    response.on('error', reject);
  });
}

module.exports = { renewConnections, send };
