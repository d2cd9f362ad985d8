'use strict';

/**
 * `web-locks top`: shows holders and waiters live, in a terminal like `query --watch` or on a page
 * that is served to this machine alone.
 */

const { hostname } = require('../platform/machine.js');
const { print } = require('./output.js');
const { quoted } = require('./format.js');
const { OpenBucket, checkDirectory } = require('./bucket.js');
const { serverOf } = require('./engines.js');
const { query } = require('./query.js');
const { Signals } = require('./signals.js');
const { STATUS } = require('./status.js');
const { Web } = require('./web.js');

/** @param {import('./arguments.js').ParsedCommand} request */
async function top(request) {
  const { values } = request;
  if (values.web) return serve(values);
  return query({ ...request, values: { ...values, watch: true } });
}

/** Serves the page until a signal arrives. @param {import('./arguments.js').Values} values */
async function serve(values) {
  checkDirectory(values);
  const bucket = new OpenBucket(values);
  try {
    await bucket.ready();
    const signals = new Signals();
    const web = new Web({ about: describeBucket(values), look: () => bucket.look(values.name) });
    await print(`${await web.listen(values.port ?? 0)}\n`);
    const signal = await signals.firstSignal;
    web.close();
    return signal === 'SIGINT' ? { status: STATUS.ok } : { signal };
  } finally {
    await bucket.close();
  }
}

/** The description contains no password. @param {import('./arguments.js').Values} values */
function describeBucket({ at, bucket, directory, name }) {
  const which = name === undefined ? 'Locks' : `The lock ${quoted(name)}`;
  const where = at ? `at ${serverOf(at)}` : `of this machine (${hostname()})`;
  const folder = directory === undefined ? '' : `, in ${quoted(directory)}`;
  const set = bucket === undefined ? 'the default bucket' : `bucket ${quoted(bucket)}`;
  return `${which} ${where}${folder}, ${set}`;
}

module.exports = { describeBucket, top };
