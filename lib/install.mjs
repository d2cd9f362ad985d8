// The CommonJS function, so that both entries are the same.
import install from './install.js';

export default install;
