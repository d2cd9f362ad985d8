import * as prometheus from './prometheus.js';

export * from './prometheus.js';
export default prometheus;
