'use strict';

// For `node --import web-locks/host/register` and `node --require web-locks/host/register`:
// `navigator.locks` is of all processes of the machine.
const { locks } = require('./host.js');

require('./install.js')({ locks });
