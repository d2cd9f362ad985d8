'use strict';

/** Whether this platform has a host scope, and `/proc`. */

const process = require('node:process');

const PLATFORMS = ['linux', 'darwin'];

/** For `skip`: the reason why there is no host scope here, or false. */
const lacksHost = PLATFORMS.includes(process.platform) ? false : 'there is no host scope here';

/** For `skip`: the reason why a test cannot read `/proc`, or false. */
const lacksProc = process.platform === 'linux' ? false : 'looks into /proc';

module.exports = { lacksHost, lacksProc };
