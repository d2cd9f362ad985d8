/** Importing this module calls `web-locks/install`. */
export {};
