// The CommonJS entry under ESM names, so that both give the same instances.
import webLocks from './index.js';

export * from './common.mjs';
export const { locks, openBucket } = webLocks;
export default webLocks;
