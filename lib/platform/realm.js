'use strict';

/**
 * The platform classes of this thread, read from objects that Node.js makes: the globals are
 * missing in a bare `vm` context, and a test environment may have replaced them.
 */

const util = require('node:util');

// Bun lacks `transferableAbortController`.
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

/** In a `vm` context of Node.js 20 and 22, Symbol lacks both, but the registered symbols exist. */
const dispose = Symbol.dispose ?? Symbol.for('nodejs.dispose');
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');

module.exports = {
  AbortController,
  AbortSignal,
  DOMException,
  // @ts-ignore: the abort has set it
  Event,
  EventTarget,
  asyncDispose,
  dispose,
};
