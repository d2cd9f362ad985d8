'use strict';

/**
 * A TCP proxy in front of a server that imitates faulty networks: it resets connections (RST),
 * drops data while connections stay open, in one direction or both, delays data, and ends a
 * connection after a number of bytes.
 */

const { once } = require('node:events');
const net = require('node:net');
const { setTimeout: wait } = require('node:timers/promises');

/**
 * Node.js 20 loses the handle of a socket that is reset after its end was sent, and then never
 * exits.
 * @param {import('node:net').Socket} socket
 */
function reset(socket) {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/** The count for something that does not happen. */
const NEVER = Number.POSITIVE_INFINITY;

/** TCP resends lost data after so many milliseconds. */
const RETRANSMISSION_MS = 200;

class FaultyProxy {
  #server = net.createServer((client) => this.#accept(client));
  #port;
  /** The sockets of clients and of the server. @type {Set<[net.Socket, net.Socket]>} */
  #pairs = new Set();
  /** Which directions are dropped. */
  #drops = { up: false, down: false };
  #delay = 0;
  #isLost = () => false;
  #refuses = false;
  /** Bytes until the connections are cut, by direction. */
  #left = { up: NEVER, down: NEVER };
  /** Whether an end follows these bytes; otherwise a reset does. */
  #ends = true;
  /** Chunks until the server says `#lastWords` and ends. */
  #chunks = NEVER;
  #lastWords = Buffer.alloc(0);
  /** Bytes that went through, by direction. */
  bytes = { up: 0, down: 0 };

  /**
   * @param {number} port of the server
   * @returns {Promise<FaultyProxy>}
   */
  static async open(port) {
    const proxy = new FaultyProxy();
    proxy.retarget(port);
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening');
    proxy.#server.unref();
    return proxy;
  }

  get port() {
    return this.#server.address().port;
  }

  /** @param {number} port of the server to which new connections go */
  retarget(port) {
    this.#port = port;
  }

  #accept(client) {
    if (this.#refuses) {
      reset(client);
      return;
    }
    const server = net.connect(this.#port, '127.0.0.1');
    const pair = [client, server];
    this.#pairs.add(pair);
    const close = () => {
      this.#pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of pair) socket.setNoDelay(true).on('error', close).on('close', close);
    client.on('data', (chunk) => this.#pass('up', chunk, server, pair));
    server.on('data', (chunk) => this.#pass('down', chunk, client, pair));
  }

  async #pass(direction, chunk, to, pair) {
    if (this.#drops[direction]) return;
    const late = this.#delay + (this.#isLost() ? RETRANSMISSION_MS : 0);
    const before = to.lastPassed;
    if (late > 0 || before) {
      // Later data does not overtake it.
      const passed = Promise.all([before, wait(late)]);
      to.lastPassed = passed;
      await passed;
      if (to.lastPassed === passed) to.lastPassed = undefined;
    }
    this.#write(direction, chunk, to, pair);
  }

  #write(direction, chunk, to, pair) {
    const left = this.#left[direction];
    const part = chunk.length > left ? chunk.subarray(0, left) : chunk;
    this.#left[direction] -= part.length;
    this.bytes[direction] += part.length;
    if (direction === 'down' && --this.#chunks === 0) {
      this.#chunks = NEVER;
      this.#end(Buffer.concat([part, this.#lastWords]), to, pair, true);
    } else if (this.#left[direction] > 0) {
      to.write(part);
    } else {
      this.#left[direction] = NEVER;
      this.#end(part, to, pair, this.#ends);
    }
  }

  /** Lets the last bytes arrive, and then an end or a reset; the other side sees a reset. */
  #end(bytes, to, pair, ends) {
    this.#pairs.delete(pair);
    reset(to === pair[0] ? pair[1] : pair[0]);
    if (ends) to.end(bytes);
    else to.write(bytes, () => reset(to));
  }

  /** Resets all connections; new ones can be made. */
  cut() {
    for (const pair of this.#pairs) for (const socket of pair) reset(socket);
    this.#pairs.clear();
  }

  /**
   * Cuts the connection on which so many more bytes have passed in a direction; their reader then
   * sees an end or a reset.
   */
  cutAfter(bytes, direction, ends = true) {
    this.#ends = ends;
    this.#left[direction] = bytes;
  }

  /** Makes the n-th message of the server arrive together with its last words and an end. */
  endWith(lastWords, chunks) {
    this.#lastWords = lastWords;
    this.#chunks = chunks;
  }

  /** Whether the last `cutAfter` and `endWith` have happened. */
  get isDone() {
    return [this.#left.up, this.#left.down, this.#chunks].every((count) => count === NEVER);
  }

  /** Drops all data from now on; connections stay open. */
  stall({ up = true, down = true } = {}) {
    this.#drops = { up, down };
  }

  /** @param {number} milliseconds the delay of all data from now on */
  delay(milliseconds) {
    this.#delay = milliseconds;
  }

  /** @param {() => boolean} isLost whether a packet is lost, from now on; TCP resends it */
  lose(isLost) {
    this.#isLost = isLost;
  }

  /** Ends all faults. Dropped data is lost, so connections are cut. */
  heal() {
    this.#drops = { up: false, down: false };
    this.#delay = 0;
    this.#isLost = () => false;
    this.#refuses = false;
    this.#left = { up: NEVER, down: NEVER };
    this.#chunks = NEVER;
    this.cut();
  }

  /** Cuts all connections and refuses new ones. */
  refuse() {
    this.#refuses = true;
    this.cut();
  }

  async close() {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

module.exports = { FaultyProxy };
