// The CommonJS entry under ESM names.
import nodeCron from './node-cron.js';

export const { runCoordinator } = nodeCron;
export default nodeCron;
