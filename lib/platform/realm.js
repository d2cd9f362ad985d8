'use strict';

/**
 * The platform classes of this thread. Taken from an object that Node makes, not from the globals:
 * those are missing in a bare `vm` context, and a test environment may have replaced them.
 */

const util = require('node:util');

// Bun does not have that function.
const controller = util.transferableAbortController?.() ?? new globalThis.AbortController();
/** @type {typeof globalThis.Event} */
let Event;
controller.signal.addEventListener('abort', (event) => {
  Event = /** @type {any} */ (event.constructor);
});
controller.abort();

/** @type {typeof globalThis.AbortSignal} */
const AbortSignal = /** @type {any} */ (controller.signal.constructor);

/** @type {typeof globalThis.EventTarget} */
const EventTarget = Object.getPrototypeOf(AbortSignal);

/** @type {typeof globalThis.DOMException} */
const DOMException = controller.signal.reason.constructor;

/** @type {typeof globalThis.AbortController} */
const AbortController = /** @type {any} */ (controller.constructor);

/** Node 20 and 22 have them only as registered symbols, and a `vm` context of theirs not at all. */
const dispose = Symbol.dispose ?? Symbol.for('nodejs.dispose');
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');

module.exports = {
  AbortController,
  AbortSignal,
  DOMException,
  // @ts-ignore: it was set by the abort
  Event,
  EventTarget,
  asyncDispose,
  dispose,
};
