'use strict';

/**
 * `--publish` of `run`, `once` and `elect`: the command has a pipe as descriptor 3. Each line that
 * it writes there is a JSON value, which the lock publishes; an empty line removes it.
 */

const { StringDecoder } = require('node:string_decoder');
const { messageOf } = require('./bucket.js');
const { quoted } = require('./format.js');
const { say } = require('./status.js');

/** The number of the pipe in the command, and the variable that tells it. */
const DESCRIPTOR = 3;
const VARIABLE = 'WEB_LOCKS_PUBLISH_FD';

/** Lines of more UTF-16 code units are not kept. */
const LONGEST_LINE = 65_536;
/** A message shows so much of a line. */
const SHOWN = 60;
/** Messages about lines, after which none follows. */
const MOST_MESSAGES = 10;
/** Of more lines that come at once, only the first so many and the last are looked at. */
const MOST_LINES = 100;
/**
 * How often the pipe is read after the command has ended. One read takes up to 64 KiB, and a pipe
 * holds less than four times as much.
 */
const LAST_READS = 8;

class Publisher {
  #stream;
  #lock;
  #decoder = new StringDecoder('utf8');
  /** The beginning of a line. */
  #rest = '';
  /** Whether the line is so long that its rest is skipped. */
  #isTooLong = false;
  /** The newest value that waits for the one that is being published. @type {unknown[]} */
  #next = [];
  #isBusy = false;
  #isStopped = false;
  #messages = 0;

  /**
   * @param {import('node:net').Socket} stream what the command writes
   * @param {{ publish(value: unknown): Promise<boolean> }} lock
   */
  constructor(stream, lock) {
    this.#stream = stream;
    this.#lock = lock;
    stream.on('data', (/** @type {Buffer} */ bytes) => {
      // A command that writes without a pause must not keep this thread from all else.
      stream.pause();
      setImmediate(() => stream.resume());
      if (!this.#isStopped) this.#read(this.#decoder.write(bytes));
    });
    // A command that closed the pipe, or died, publishes nothing more.
    stream.on('error', () => {});
  }

  /** Reads what the command wrote before it ended. Other processes can have the pipe open still. */
  async close() {
    for (let i = 0; i < LAST_READS; i++) await new Promise((resolve) => setImmediate(resolve));
    this.#stream.destroy();
  }

  /**
   * Publishes nothing more. The pipe is still read, so that the command is not killed by SIGPIPE.
   */
  stop() {
    this.#isStopped = true;
  }

  /** @param {string} text */
  #read(text) {
    const lines = text.split('\n');
    for (let i = 0; i < lines.length; i++) {
      if (i > MOST_LINES && i < lines.length - 2) continue;
      if (this.#rest.length + lines[i].length > LONGEST_LINE) this.#isTooLong = true;
      this.#rest = this.#isTooLong ? '' : this.#rest + lines[i];
      if (i < lines.length - 1) this.#endLine();
    }
  }

  #endLine() {
    const line = this.#rest;
    const isTooLong = this.#isTooLong;
    this.#rest = '';
    this.#isTooLong = false;
    if (isTooLong) {
      this.#say(`a line to publish has more than ${LONGEST_LINE} characters`);
      return;
    }
    let value;
    try {
      if (line.trim() !== '') value = JSON.parse(line);
    } catch {
      const shown = line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
      this.#say(`the line ${quoted(shown)} to publish is not JSON`);
      return;
    }
    this.#next = [value];
    this.#publish();
  }

  /** If values come faster than they can be published, only the newest is. */
  async #publish() {
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#next.length > 0) {
      const [value] = this.#next;
      this.#next = [];
      try {
        await this.#lock.publish(value);
      } catch (error) {
        this.#say(messageOf(error).replace(/\.$/, ''));
      }
    }
    this.#isBusy = false;
  }

  /** @param {string} why a sentence without its full stop */
  #say(why) {
    if (++this.#messages <= MOST_MESSAGES) say(`${why}; nothing was published.`);
    if (this.#messages === MOST_MESSAGES)
      say('further lines that cannot be published are not told.');
  }
}

module.exports = { DESCRIPTOR, Publisher, VARIABLE };
