// The CommonJS functions under ESM names, so that both entries have the same table of held locks.
import lockfile from './lockfile.js';

export const { lock, unlock, check, lockSync, unlockSync, checkSync } = lockfile;
export default lockfile;
