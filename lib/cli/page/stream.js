'use strict';

/**
 * Receives the events of `web-locks` while the page is visible. A hidden or paused page has no
 * connection: a browser opens only six connections for all pages of a server, and while no page is
 * connected, no query runs. The server sends an event each second, even if nothing has changed.
 */

/** After this time without an event the state counts as unknown. All times are milliseconds. */
const SILENCE = 5000;
/** If the browser has stopped reconnecting, the page itself reconnects after this time. */
const RECONNECT_MS = 2000;

class Stream {
  #source;
  #again;
  #silence;
  #isPaused = false;
  #hasFailed = false;
  #onStatus;
  #onState;

  /** `onStatus` gets `live`, or the reason why the page is not live, and perhaps a message. */
  constructor(onState, onStatus) {
    this.#onState = onState;
    this.#onStatus = onStatus;
    document.addEventListener('visibilitychange', () => this.#reconnect());
    this.#reconnect();
  }

  get isPaused() {
    return this.#isPaused;
  }

  /** Disconnects, and connects again if the page is visible and not paused. */
  set isPaused(value) {
    this.#isPaused = value;
    this.#reconnect();
  }

  /** Connects again only if the page is visible and not paused. */
  #reconnect() {
    this.#disconnect();
    if (this.#isPaused) this.#onStatus('paused');
    else if (!document.hidden) this.#connect();
  }

  #disconnect() {
    this.#source?.close();
    this.#source = undefined;
    clearTimeout(this.#again);
    clearTimeout(this.#silence);
  }

  #connect() {
    this.#onStatus('asked');
    this.#restartSilenceTimer();
    const source = new EventSource('events');
    this.#source = source;
    source.addEventListener('open', () => this.#restartSilenceTimer());
    source.addEventListener('message', ({ data }) => {
      this.#hasFailed = false;
      this.#onState(JSON.parse(data));
      this.#handleEvent();
    });
    source.addEventListener('same', () => this.#handleEvent());
    source.addEventListener('failure', ({ data }) => {
      this.#hasFailed = true;
      this.#restartSilenceTimer();
      this.#onStatus('failed', JSON.parse(data));
    });
    source.addEventListener('error', () => {
      clearTimeout(this.#silence);
      this.#onStatus('lost');
      if (source.readyState === EventSource.CLOSED) {
        this.#again = setTimeout(() => this.#reconnect(), RECONNECT_MS);
      }
    });
  }

  /** Reports that the page is live, unless the last query failed. */
  #handleEvent() {
    this.#restartSilenceTimer();
    if (!this.#hasFailed) this.#onStatus('live');
  }

  #restartSilenceTimer() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#onStatus('silent'), SILENCE);
  }
}

module.exports = { Stream };
