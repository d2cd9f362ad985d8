// The CommonJS functions under ESM names, so that both entries share what is locked.
import lockfile from './lockfile.js';

export const { lock, unlock, check, lockSync, unlockSync, checkSync } = lockfile;
export default lockfile;
