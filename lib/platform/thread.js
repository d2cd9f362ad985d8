'use strict';

const workerThreads = require('node:worker_threads');

const { threadId } = workerThreads;
/** Node.js 20 does not tell it; newer ones tell a word of their own of workers without a name. */
const { threadName: told = '' } = /** @type {{ threadName?: string }} */ (workerThreads);
/** The name of this thread; '' for none. */
const threadName = told === 'WorkerThread' ? '' : told;

module.exports = { threadId, threadName };
