'use strict';

const workerThreads = require('node:worker_threads');

const { threadId } = workerThreads;
/** Node.js 20 has no `threadName`; newer versions invent one for workers without a name. */
const { threadName: told = '' } = /** @type {{ threadName?: string }} */ (workerThreads);
const threadName = told === 'WorkerThread' ? '' : told;

module.exports = { threadId, threadName };
