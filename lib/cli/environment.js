'use strict';

/**
 * Keeps the settings of programs from this program, whose users cannot act on warnings about its
 * own requests. Commands get the whole environment. The modules of the library read the settings
 * when they are loaded, so this module comes before them.
 */

const process = require('node:process');

/** The environment in which this program was started. */
const environment = { ...process.env };

for (const setting of ['WEB_LOCKS_DEADLOCK', 'WEB_LOCKS_WARN_AFTER']) delete process.env[setting];

module.exports = { environment };
