// The CommonJS entry under ESM names, so that both give the same instances.
import webLocks from './index.js';

export * from './shared.mjs';
export const { locks, openBucket } = webLocks;
export default webLocks;
