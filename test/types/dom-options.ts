// Our options are assignable to those of the DOM library, except with `exactOptionalPropertyTypes`,
// where the DOM library does not accept `undefined`.

import type webLocks = require('web-locks');

declare const ours: webLocks.LockOptions;

export const toDom: LockOptions = ours;
