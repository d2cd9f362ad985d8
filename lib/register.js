'use strict';

// For `node --import web-locks/register` and `node --require web-locks/register`.
require('./install.js')();
