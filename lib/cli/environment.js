'use strict';

/**
 * Hides the variables with which developers configure the library: users of the command line cannot
 * act on warnings about the requests that `web-locks` makes. The command that `web-locks` runs
 * still gets the whole environment. Other modules read the variables when they are loaded, so
 * main.js loads this module first.
 */

const process = require('node:process');

const environment = { ...process.env };

for (const setting of ['WEB_LOCKS_DEADLOCK', 'WEB_LOCKS_WARN_AFTER']) delete process.env[setting];

module.exports = { environment };
