'use strict';

const workerThreads = require('node:worker_threads');

const { threadId } = workerThreads;
/** Node.js 20 has no `threadName`; newer versions call a worker without a name 'WorkerThread'. */
const { threadName: told = '' } = /** @type {{ threadName?: string }} */ (workerThreads);
const threadName = told === 'WorkerThread' ? '' : told;

module.exports = { threadId, threadName };
