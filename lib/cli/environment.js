'use strict';

/**
 * Hides the variables with which developers configure the library: users of the command line cannot
 * act on warnings about its requests. The command that it runs still gets the whole environment.
 * The modules of the library read the variables when they are loaded, so this module comes first.
 */

const process = require('node:process');

/** The environment in which this program was started. */
const environment = { ...process.env };

for (const setting of ['WEB_LOCKS_DEADLOCK', 'WEB_LOCKS_WARN_AFTER']) delete process.env[setting];

module.exports = { environment };
