'use strict';

// `node --import web-locks/host/register` (or `--require`) gives `navigator.locks` the locks that
// all processes of the machine share.
const { locks } = require('./host.js');

require('./install.js')({ locks });
