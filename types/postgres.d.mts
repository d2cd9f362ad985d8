export * from './postgres.js';
import * as webLocks from './postgres.js';
export default webLocks;
