// The CommonJS entry under ESM names.
import nest from './nest.js';

export const { Elected, LOCKS, Locked, LocksModule, Once, currentLock } = nest;
export default nest;
