'use strict';

/**
 * The server of `top --web`: a page, and the events that keep it live. Names and labels can be
 * private, and other users of the machine can also reach the loopback address, so the path contains
 * a secret. The check of the Host header prevents DNS rebinding: requests of a site whose own name
 * resolves to 127.0.0.1.
 */

const { createHash, randomBytes, timingSafeEqual } = require('node:crypto');
const http = require('node:http');
const path = require('node:path');
const { assemble } = require('../page/assemble.js');
const { EventClients } = require('./event-clients.js');
const { Failure, STATUS } = require('./status.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

const ADDRESS = '127.0.0.1';
/** The names by which a browser on this machine, or behind a tunnel, can address the server. */
const HOSTS = [ADDRESS, 'localhost', '[::1]'];
/** Browsers leave this port out of the Host header. */
const USUAL_PORT = 80;

const PAGE = {
  folder: path.join(__dirname, 'page'),
  template: 'top.template',
  style: 'top.css',
  common: ['duration.js', 'elements.js'],
  scripts: ['stream.js', 'rows.js', 'main.js'],
};

const MORE_POLICY =
  "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS = {
  'Cache-Control': 'no-store',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/** Digests have equal lengths, as timingSafeEqual requires. @param {string} text */
const digest = (text) => createHash('sha256').update(text).digest();

class Web {
  #server = http.createServer((request, response) => this.#handleRequest(request, response));
  #secret = randomBytes(24).toString('base64url');
  #page;
  #clients;
  /** @type {string[]} */
  #hosts = [];

  /** @param {{ about: string, look: () => Promise<DetailedSnapshot> }} options */
  constructor({ about, look }) {
    const data = JSON.stringify({ about }).replaceAll('<', '\\u003c');
    this.#page = assemble({ ...PAGE, more: { data } });
    this.#clients = new EventClients(look);
  }

  /** Resolves to the URL of the page. @param {number} wanted 0 for any free port */
  async listen(wanted) {
    await new Promise((resolve, reject) => {
      this.#server.once('error', (error) => reject(listenFailure(wanted, error)));
      this.#server.listen(wanted, ADDRESS, () => resolve(undefined));
    });
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    this.#hosts = HOSTS.map((host) => `${host}:${port}`);
    if (port === USUAL_PORT) this.#hosts.push(...HOSTS);
    return `http://${ADDRESS}:${port}/${this.#secret}/`;
  }

  /** Stops the server, and ends its connections, which would otherwise keep the process running. */
  close() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** @param {import('node:http').IncomingMessage} request @param {ServerResponse} response */
  #handleRequest(request, response) {
    const { headers, method = '', url = '' } = request;
    if (!this.#hosts.includes(String(headers.host).toLowerCase())) {
      return refuse(response, 403);
    }
    const [, secret = '', rest] = /^\/([^/]*)\/(.*)$/s.exec(url) ?? [];
    const isRight = timingSafeEqual(digest(secret), digest(this.#secret));
    if (!isRight || (rest !== '' && rest !== 'events')) {
      return refuse(response, 404);
    }
    if (method !== 'GET' && method !== 'HEAD') return refuse(response, 405, { Allow: 'GET, HEAD' });
    if (rest === 'events') this.#sendEvents(method, response);
    else this.#sendPage(response);
  }

  /** @param {ServerResponse} response */
  #sendPage(response) {
    const { html, policy } = this.#page;
    response.writeHead(200, {
      ...HEADERS,
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': `${policy}; ${MORE_POLICY}`,
    });
    response.end(html);
  }

  /** @param {string} method @param {ServerResponse} response */
  #sendEvents(method, response) {
    response.writeHead(200, { ...HEADERS, 'Content-Type': 'text/event-stream' });
    if (method === 'HEAD') response.end();
    else this.#clients.add(response);
  }
}

/**
 * @param {ServerResponse} response @param {number} status
 * @param {Record<string, string>} [more] headers
 */
function refuse(response, status, more) {
  response.writeHead(status, { ...HEADERS, ...more, 'Content-Type': 'text/plain; charset=utf-8' });
  response.end(`${http.STATUS_CODES[status]}\n`);
}

/** @param {number} port @param {NodeJS.ErrnoException} error */
function listenFailure(port, { code, message }) {
  const why = { EADDRINUSE: 'it is in use', EACCES: 'permission denied' }[`${code}`];
  return new Failure(STATUS.unavailable, `port ${port} cannot be used: ${why ?? message}.`);
}

module.exports = { Web };
