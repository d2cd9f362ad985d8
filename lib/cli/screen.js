'use strict';

/**
 * A terminal used as a screen that is repainted after changes. The terminal gets its previous
 * contents back however the program ends, except by SIGKILL or a crash.
 */

const { CAUGHT } = require('./signals.js');

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const CLEAR_LINE = '\x1b[K';
const CLEAR_BELOW = '\x1b[J';
const CTRL_C = '\x03';
const CTRL_D = '\x04';
const ENDING_KEYS = ['q', 'Q', CTRL_C, CTRL_D];
/** SIGBREAK exists only on Windows. */
const ENDING_SIGNALS = new Set([...CAUGHT, /** @type {NodeJS.Signals} */ ('SIGBREAK')]);

class Screen {
  #input;
  #output;
  #paint;
  #isOpen = true;
  #resolveEnded = /** @type {(signal?: NodeJS.Signals) => void} */ (() => {});
  /** The painted text; undefined if the terminal may have lost it. @type {string | undefined} */
  #shown;
  /** Resolves when the user ends the program: to the signal, or to undefined after a key. */
  ended;

  /**
   * @param {NodeJS.ReadStream} input its key presses are read if it is a terminal
   * @param {NodeJS.WriteStream} output a terminal
   * @param {() => void} paint called if the size has changed or the contents may be lost
   */
  constructor(input, output, paint) {
    this.#input = input;
    this.#output = output;
    this.#paint = paint;
    /** @type {Promise<NodeJS.Signals | undefined>} */
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    for (const signal of ENDING_SIGNALS) process.on(signal, this.#resolveEnded);
    if (input.isTTY) this.#listen();
    process.on('SIGCONT', this.#resume);
    process.on('exit', this.#leave);
    output.on('resize', this.#repaint);
    output.write(ENTER);
  }

  /** Sets raw mode. Then a key that ends the program resolves `ended`. */
  #listen() {
    this.#input.setRawMode(true);
    this.#input.on('data', (keys) => {
      if ([...String(keys)].some((key) => ENDING_KEYS.includes(key))) this.#resolveEnded();
    });
    this.#input.on('end', () => this.#resolveEnded());
  }

  /** Some terminals do not know their size, and report 0. */
  get size() {
    const { columns, rows } = this.#output;
    return { columns: columns || 80, rows: rows || 24 };
  }

  /** Paints the lines that fit. @param {string[]} lines none is wider than the screen */
  show(lines) {
    if (!this.#isOpen) return;
    const room = lines.slice(0, this.size.rows);
    const frame = HOME + room.map((line) => line + CLEAR_LINE).join('\r\n') + CLEAR_BELOW;
    if (frame === this.#shown) return;
    this.#shown = frame;
    this.#output.write(frame);
  }

  #repaint = () => {
    this.#shown = undefined;
    this.#paint();
  };

  /** While this process was stopped, the shell changed the terminal's settings. Sets them again. */
  #resume = () => {
    if (this.#input.isTTY) {
      this.#input.setRawMode(false);
      this.#input.setRawMode(true);
    }
    this.#output.write(ENTER);
    this.#repaint();
  };

  /** Gives the terminal its previous contents and settings back; a repeated call does nothing. */
  #leave = () => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#output.write(LEAVE);
    if (this.#input.isTTY) this.#input.setRawMode(false);
  };

  close() {
    this.#leave();
    process.off('exit', this.#leave);
    process.off('SIGCONT', this.#resume);
    for (const signal of ENDING_SIGNALS) process.off(signal, this.#resolveEnded);
    this.#output.off('resize', this.#repaint);
    this.#input.pause();
    this.#input.removeAllListeners('data');
  }
}

module.exports = { Screen };
