'use strict';

// `node --import web-locks/register` (or `--require`) gives `navigator.locks` the locks that all
// threads of the process share.
require('./install.js')();
