'use strict';

/** Workers from source code, which can start others. Only they load the package. */

const { Worker } = require('node:worker_threads');

const library = JSON.stringify(require.resolve('../fixtures/library.js'));
const helper = JSON.stringify(__filename);

/** A worker that runs `source` with `locks`, `parentPort`, `post`, `start` and `name`. */
function start(source, name, options = {}) {
  const code = `
    const { parentPort, workerData: name } = require('node:worker_threads');
    const { locks } = require(${library});
    const { start } = require(${helper});
    const post = (message) => parentPort.postMessage(message);
    ${source}`;
  return new Worker(code, { ...options, eval: true, workerData: name });
}

module.exports = { start };
