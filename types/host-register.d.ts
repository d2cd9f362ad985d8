/**
 * Importing this module calls `web-locks/install` with the `locks` of `web-locks/host`:
 * `navigator.locks` is then shared by all processes of the machine that run as the same user, and
 * all their threads.
 */
export {};
