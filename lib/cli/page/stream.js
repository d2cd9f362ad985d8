'use strict';

/**
 * What comes from `web-locks`, while somebody looks: a page that is hidden or paused has no
 * connection. A browser has six for all pages of a server, and where there is none nobody looks at
 * the locks.
 *
 * `web-locks` tells every second, if only that nothing has changed.
 */

/** After so long without a message the state is unknown. Milliseconds, as all times here. */
const SILENCE = 5000;
/** The browser has given up. */
const AGAIN = 2000;

class Stream {
  #source;
  #again;
  #silence;
  #isPaused = false;
  #hasFailed = false;
  #onStatus;
  #onState;

  /**
   * @param {(state: { groups: object[], notes: string[] }) => void} onState
   * @param {(status: string, message?: string) => void} onStatus: `live`, or why it is not
   */
  constructor(onState, onStatus) {
    this.#onState = onState;
    this.#onStatus = onStatus;
    document.addEventListener('visibilitychange', () => this.#choose());
    this.#choose();
  }

  get isPaused() {
    return this.#isPaused;
  }

  set isPaused(value) {
    this.#isPaused = value;
    this.#choose();
  }

  #choose() {
    this.#end();
    if (this.#isPaused) this.#onStatus('paused');
    else if (!document.hidden) this.#begin();
  }

  #end() {
    this.#source?.close();
    this.#source = undefined;
    clearTimeout(this.#again);
    clearTimeout(this.#silence);
  }

  #begin() {
    this.#onStatus('asked');
    this.#wait();
    const source = new EventSource('events');
    this.#source = source;
    source.addEventListener('open', () => this.#wait());
    source.addEventListener('message', ({ data }) => {
      this.#hasFailed = false;
      this.#onState(JSON.parse(data));
      this.#hear();
    });
    source.addEventListener('same', () => this.#hear());
    source.addEventListener('failure', ({ data }) => {
      this.#hasFailed = true;
      this.#wait();
      this.#onStatus('failed', JSON.parse(data));
    });
    source.addEventListener('error', () => {
      clearTimeout(this.#silence);
      this.#onStatus('lost');
      if (source.readyState === EventSource.CLOSED) {
        this.#again = setTimeout(() => this.#choose(), AGAIN);
      }
    });
  }

  #hear() {
    this.#wait();
    if (!this.#hasFailed) this.#onStatus('live');
  }

  #wait() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#onStatus('silent'), SILENCE);
  }
}

module.exports = { Stream };
