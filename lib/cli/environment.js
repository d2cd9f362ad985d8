'use strict';

/**
 * Hides the variables that configure the library in programs. The users of this program cannot act
 * on warnings about its own requests. The command that it runs gets the whole environment. The
 * modules of the library read the variables when they are loaded, so this module comes before them.
 */

const process = require('node:process');

/** The environment in which this program was started. */
const environment = { ...process.env };

for (const setting of ['WEB_LOCKS_DEADLOCK', 'WEB_LOCKS_WARN_AFTER']) delete process.env[setting];

module.exports = { environment };
