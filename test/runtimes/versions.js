'use strict';

/** The versions of the runtimes, as packages of npm, in which tests run. docs/INSTALL.md names them. */
module.exports = { bun: '1.4.5', deno: '2.9.6' };
