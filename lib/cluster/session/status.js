'use strict';

/** The state that the parts of a session share. */

/** @import { Seen } from '../adapter.js' */
/** @import { Reason, State } from './session.js' */

class Status {
  /** Changed by `set` only. @type {State} */
  state = 'new';
  /** The id of the session; '' if there is none. */
  id = '';
  /** Milliseconds; the server may have changed it when the session was opened. */
  ttl;
  /** Openings and renewals change `life`, and grants raise `token`. @type {Seen} */
  seen = { life: '', token: 0n };
  #onChange;

  /**
   * @param {number} ttl
   * @param {(state: State, reason?: Reason, cause?: unknown) => void} onChange
   */
  constructor(ttl, onChange) {
    this.ttl = ttl;
    this.#onChange = onChange;
  }

  /**
   * Sets the state, and calls `onChange`.
   * @param {State} state @param {Reason} [reason] @param {unknown} [cause]
   */
  set(state, reason, cause) {
    this.state = state;
    this.#onChange(state, reason, cause);
  }

  get isOpen() {
    return this.state === 'open';
  }

  /** Whether there is a session, even if its lease has run out unnoticed. */
  get hasSession() {
    return this.id !== '';
  }

  /** Whether there is a lease that cannot be renewed now. */
  get isCutOff() {
    return this.hasSession && !this.isOpen;
  }
}

module.exports = { Status };
