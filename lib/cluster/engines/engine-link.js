'use strict';

const { staleError } = require('./errors.js');

/** The base of connections to an engine. A connection never reconnects, and ends only once. */
class EngineLink {
  isDown = false;
  /** Called with the error if the connection ends by itself. @type {(error: unknown) => void} */
  onDown = () => {};

  /** Ends the connection without `onDown`. */
  drop() {
    this.onDown = () => {};
    this.fail();
  }

  /** Ends the connection, and calls `onDown`. @param {unknown} [error] */
  fail = (error) => {
    if (this.isDown) return;
    this.isDown = true;
    const why = this.explainEnd(error);
    this.end(why);
    this.onDown(why);
  };

  /** The error of the calls under way. @param {unknown} [error] undefined if there was none */
  explainEnd(error) {
    return error ?? staleError();
  }

  /** Frees what the connection has, and rejects the calls under way. @param {unknown} _why */
  end(_why) {}
}

module.exports = { EngineLink };
