'use strict';

/**
 * The platform classes of this thread. Taken from an object that Node makes, not from the globals:
 * those are missing in a bare `vm` context, and a test environment may have replaced them.
 */

const { transferableAbortController } = require('node:util');

const controller = transferableAbortController();
controller.abort();

/** @type {typeof globalThis.AbortSignal} */
const AbortSignal = /** @type {any} */ (controller.signal.constructor);

/** @type {typeof globalThis.DOMException} */
const DOMException = controller.signal.reason.constructor;

/** @type {typeof globalThis.AbortController} */
const AbortController = /** @type {any} */ (controller.constructor);

module.exports = { AbortController, AbortSignal, DOMException };
