'use strict';

/** Requests to the server of `top --web`, as from a browser. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const http = require('node:http');
const { start } = require('./command.js');

/** Starts `top --web`. @returns the command, and the URL of its page */
async function serve(t, args, options) {
  const command = start(t, ['top', '--web', ...args], options);
  const [, url] = await command.says(/^(http:.*)\n/);
  return { command, url: new URL(url) };
}

/** @returns {Promise<{ status: number, headers: object, text: string }>} */
function ask({ hostname, port, pathname }, { path = pathname, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path, ...options }, async (response) => {
      const { statusCode: status, headers } = response;
      resolve({ status, headers, text: (await response.toArray()).join('') });
    });
    request.on('error', reject).end();
  });
}

/** Follows the events of a page. @returns {AsyncGenerator<object[]>} a part of each state */
async function* states(t, { hostname, port, pathname }, part = 'groups') {
  const request = http.get({ hostname, port, path: `${pathname}events` });
  t.after(() => request.destroy());
  const [response] = await once(request, 'response');
  assert.equal(response.headers['content-type'], 'text/event-stream');
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    const events = (text + chunk).split('\n\n');
    text = events.pop();
    for (const event of events) {
      if (event.startsWith('data: ')) yield JSON.parse(event.slice('data: '.length))[part];
    }
  }
}

module.exports = { ask, serve, states };
