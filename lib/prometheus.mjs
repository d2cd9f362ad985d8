// The CommonJS entry under ESM names.
import prometheus from './prometheus.js';

export const { collectMetrics } = prometheus;
export default prometheus;
