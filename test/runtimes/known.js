'use strict';

/**
 * By runtime, ends of the titles of tests that do not pass there or, in Deno, not always. The section
 * "Bun and Deno" of docs/INSTALL.md says what it is about them.
 */
module.exports = {
  bun: [
    // The runtime formats stacks of its own by users' prepareStackTrace meanwhile, and hears what it throws.
    'is what users’ code makes of it, when the request is over: that may throw',
    // Workers have no resourceLimits.
    'while it runs out of heap with a lock in its hands',
    // process.exit() is over with an exit listener that throws; the status is another one.
    'when it exits again after it failed to exit, and the worker got its lock in between',
    'although a listener throws',
    // The runtime was seen to end in it, once in 7 times.
    'while its locks are handed to this thread and back',
    // process.exit() while a worker blocks was seen not to end the process, 4 times in 12.
    'although the main thread has not loaded the package',
    'although its listeners were removed',
  ],
  deno: [
    // The runtime formats stacks of its own by users' prepareStackTrace meanwhile, and hears what it throws.
    'is what users’ code makes of it, when the request is over: that may throw',
    // Listeners that stop the propagation of an event cannot be resisted.
    'happens even if another listener stops the propagation of the event',
    // What the command line preloads is not told, so no profile starts by itself.
    'WEB_LOCKS_PROFILE_SIZE: one warning says what is expected, and the program runs',
    'WEB_LOCKS_PROFILE_SITES: one warning says what is expected, and the program runs',
    // There is no threadName.
    'says who holds and who waits, with labels, and what blocks whom',
    // A profile receives from other threads by receiveMessageOnPort, which takes no BroadcastChannel.
    'tells where request, while a profile runs, was called, also leader() and the error of a time limit',
    // The console shows the symbols of a DOMException.
    'of an error that names others has them, but only a few lines on the console',
    // terminate() does not end a thread that does not come back to its event loop.
    'while it loads the package',
    'inside request(), which it calls all the time',
    'inside a callback that does not return',
    'while it is granted a lock and blocked by Atomics.wait()',
    // A worker's 'exit' event comes before the thread has ended; these look right after it.
    'while its locks are handed to this thread and back',
    'is ended by worker.terminate(), and its request with it',
    'ends with the worker that it is a worker of, which holds the lock and is terminated',
    'ends with the worker that it is a worker of, which holds the lock and calls process.exit()',
    // The status of a process whose exit listener throws is another one.
    'although a listener throws',
  ],
};
