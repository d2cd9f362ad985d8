import * as cron from './cron.js';

export * from './cron.js';
export default cron;
