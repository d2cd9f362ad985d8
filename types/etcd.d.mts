export * from './etcd.js';
import * as webLocks from './etcd.js';
export default webLocks;
