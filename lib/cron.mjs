// The CommonJS entry under ESM names.
import cron from './cron.js';

export const { oncePerTick } = cron;
export default cron;
