'use strict';

// For `node --import web-locks/register` and `node --require web-locks/register`: `navigator.locks`
// is of all threads of the process.
require('./install.js')();
