export * from './redis.js';
import * as webLocks from './redis.js';
export default webLocks;
