'use strict';

/** Follows this thread's requests by the diagnostics channels (docs/API.md, "Who holds what"). */

const { subscribe, unsubscribe } = require('node:diagnostics_channel');

/**
 * @typedef {object} Message times are in milliseconds
 * @property {symbol} id @property {string} name @property {string} mode @property {string} [label]
 * @property {number} waited @property {number} held @property {bigint} [token]
 * @property {unknown} [error]
 */

/**
 * @typedef {object} Listener
 * @property {(message: Message) => void} [onStart]
 * @property {(message: Message, outcome: 'granted' | 'unavailable' | 'failed') => void} onWaited
 * @property {(message: Message) => void} [onLost] a lock was stolen, lost, or held for too long
 * @property {(message: Message, wasHeld: boolean) => void} onEnd the last call about a request
 */

/** @param {Listener} listener @returns {() => void} ends the calls of the listener */
function followRequests({ onStart, onWaited, onLost, onEnd }) {
  /** Whether the lock was granted, for requests whose wait is over. @type {Map<symbol, boolean>} */
  const areHeld = new Map();
  /** Calls `onLost` only if the lock was granted before. @param {Message} message */
  const handleLoss = (message) => {
    if (areHeld.get(message.id)) onLost?.(message);
  };
  /** @type {Record<string, (message: Message) => void>} */
  const handlers = {
    start: (message) => onStart?.(message),
    grant(message) {
      areHeld.set(message.id, true);
      onWaited(message, 'granted');
    },
    miss(message) {
      areHeld.set(message.id, false);
      onWaited(message, 'unavailable');
    },
    /** A request that ends without a grant or a miss has failed, so `onWaited` is called first. */
    end(message) {
      const isHeld = areHeld.get(message.id);
      areHeld.delete(message.id);
      if (isHeld === undefined) onWaited(message, 'failed');
      onEnd(message, isHeld === true);
    },
    steal: handleLoss,
    lost: handleLoss,
    timeout: handleLoss,
  };
  const subscriptions = Object.entries(handlers).map(([name, handle]) => {
    /** @param {any} message Node.js's own locks publish messages without an id */
    const onMessage = (message) => {
      if (typeof message.id === 'symbol') handle(message);
    };
    return /** @type {const} */ ([`locks.request.${name}`, onMessage]);
  });
  for (const [name, onMessage] of subscriptions) subscribe(name, onMessage);
  return () => {
    for (const [name, onMessage] of subscriptions) unsubscribe(name, onMessage);
  };
}

/** Metrics use labels, because there may be too many names. @param {Message} message */
const metricLabelOf = ({ label = 'unlabelled' }) => label;

module.exports = { followRequests, metricLabelOf };
