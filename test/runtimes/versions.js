'use strict';

/** The versions of the runtimes in which tests run, as npm packages. docs/INSTALL.md names them. */
module.exports = { bun: '1.4.5', deno: '2.9.6' };
