'use strict';

/** The screen of `query --watch`, on streams that are no terminal. */

const assert = require('node:assert/strict');
const { PassThrough } = require('node:stream');
const { afterEach, beforeEach, describe, it } = require('node:test');
const { Screen } = require('../../lib/cli/screen.js');

describe('a screen', () => {
  let output, painted, screen;

  /** The output since the last call. From Node.js 26 on, one read returns only one chunk. */
  const written = () => {
    let text = '';
    while (output.readableLength > 0) text += output.read();
    return text;
  };

  beforeEach(() => {
    output = new PassThrough();
    painted = 0;
    const paint = () => {
      painted++;
      screen.show(['one', 'two']);
    };
    screen = new Screen(new PassThrough(), output, paint);
    screen.show(['one', 'two']);
    assert.match(written(), /one.*\r\ntwo/);
  });

  afterEach(() => screen.close());

  it('writes nothing if it shows that already', () => {
    screen.show(['one', 'two']);
    assert.equal(written(), '');
    screen.show(['one', 'three']);
    assert.match(written(), /one.*\r\nthree/);
  });

  it('is painted anew when its size changes, and when the program goes on after a stop', () => {
    for (const change of [() => output.emit('resize'), () => process.emit('SIGCONT')]) {
      painted = 0;
      change();
      assert.equal(painted, 1);
      assert.match(written(), /one.*\r\ntwo/);
    }
  });

  // SIGBREAK and SIGHUP are those of Windows: Ctrl-Break, and the end of the console.
  for (const signal of ['SIGINT', 'SIGBREAK', 'SIGHUP']) {
    it(`ends by ${signal}`, async () => {
      process.emit(signal, signal);
      assert.equal(await Promise.race([screen.ended, 'lives']), signal);
    });
  }
});
