export * from './host.js';
import * as webLocks from './host.js';
export default webLocks;
