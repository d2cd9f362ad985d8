/**
 * Importing this module calls `web-locks/install`: `navigator.locks` is then shared by all threads
 * of this process, and by no other process. For all processes of the machine import
 * `web-locks/host/register` instead.
 */
export {};
