'use strict';

/**
 * For each runtime, ends of the titles of tests that fail there, or sometimes fail (Deno). The
 * section "Bun and Deno" of docs/INSTALL.md explains them.
 */
module.exports = {
  bun: [
    // The runtime formats its own stacks with users' prepareStackTrace, and gets its errors.
    'is what users’ code makes of it, when the request is over: that may throw',
    // Workers have no resourceLimits.
    'while it runs out of heap with a lock in its hands',
    // An exit listener that throws ends process.exit(), with another status.
    'when it exits again after it failed to exit, and the worker got its lock in between',
    'although a listener throws',
    // The runtime crashed in it once in 7 runs.
    'while its locks are handed to this thread and back',
    // In 4 of 12 runs, process.exit() did not end the process while a worker blocked.
    'although the main thread has not loaded the package',
    'although its listeners were removed',
  ],
  deno: [
    // The runtime formats its own stacks with users' prepareStackTrace, and gets its errors.
    'is what users’ code makes of it, when the request is over: that may throw',
    // A listener that stops the propagation of an event cannot be prevented from that.
    'happens even if another listener stops the propagation of the event',
    // The preloads of the command line are unknown, so no profile starts on its own.
    'WEB_LOCKS_PROFILE_SIZE: one warning says what is expected, and the program runs',
    'WEB_LOCKS_PROFILE_SITES: one warning says what is expected, and the program runs',
    // Threads have no threadName.
    'says who holds and who waits, with labels, and what blocks whom',
    // A profile needs receiveMessageOnPort, which does not accept a BroadcastChannel here.
    'tells where request, while a profile runs, was called, also in leader() and time limits',
    // The console shows the symbols of a DOMException.
    'of an error that names others has them, but only a few lines on the console',
    // terminate() does not end a thread that does not return to its event loop.
    'while it loads the package',
    'inside request(), which it calls all the time',
    'inside a callback that does not return',
    'while it is granted a lock and blocked by Atomics.wait()',
    // A worker's 'exit' event comes before the thread has ended; these tests look right after it.
    'while its locks are handed to this thread and back',
    'is ended by worker.terminate(), and its request with it',
    'ends with the worker that started it, which holds the lock and is terminated',
    'ends with the worker that started it, which holds the lock and calls process.exit()',
    // A process whose exit listener throws has another status.
    'although a listener throws',
  ],
};
