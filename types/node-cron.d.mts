import * as nodeCron from './node-cron.js';

export * from './node-cron.js';
export default nodeCron;
