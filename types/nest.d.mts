import * as nest from './nest.js';

export * from './nest.js';
export default nest;
