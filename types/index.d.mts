export * from './index.js';
import * as webLocks from './index.js';
export default webLocks;
