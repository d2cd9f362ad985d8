// slow: 4

'use strict';

/**
 * The rule of lib/backend/contract.js: a method of a request that applies an event calls nothing.
 * This test checks the source; test/helpers/applying.js checks running code, and is tested here,
 * too.
 */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const ts = require('typescript-oldest');
const { MEMBERS } = require('../helpers/members.js');

const LIB = path.join(__dirname, '..', '..', 'lib');

/** The methods in which those that apply events note the time. */
const NOTES = ['noteGrant', 'noteRelease'];

/** What these methods may call besides each other: the clock, and a map of ours (sites.js). */
const HARMLESS = ['now', 'noteSite', 'forgetSite', ...NOTES];

/** The files of lib that contain classes of requests. */
const files = ['standard', 'extensions'].flatMap((room) =>
  readdirSync(path.join(LIB, room), { recursive: true })
    .filter((name) => name.endsWith('.js'))
    .map((name) => path.join(LIB, room, name)),
);

/** @returns {string} the last part of the name that a call calls */
function calleeOf({ expression }) {
  return ts.isPropertyAccessExpression(expression)
    ? expression.name.text
    : expression.getText().replace(/^super$/, 'constructor');
}

/** @returns the methods of a class that apply events: of requests, and of their notes */
function membersOf(node) {
  const parts = [node.name, ...(node.heritageClauses ?? [])];
  const isOfRequests = /Request\b/.test(parts.map((part) => part?.getText()).join());
  return node.members.filter((member) => {
    const name = member.name?.getText();
    return ts.isMethodDeclaration(member) && (isOfRequests ? MEMBERS : NOTES).includes(name);
  });
}

/**
 * @param {string} source
 * @returns {string[]} the calls of these methods, without calls in functions that they only create
 */
function callsOfMembers(source) {
  const found = [];
  const visit = (node, member) => {
    if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) return;
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
      const callee = calleeOf(node);
      const isHarmless = MEMBERS.includes(callee) || HARMLESS.includes(callee);
      if (!isHarmless) found.push(`${member} calls ${callee}`);
    }
    ts.forEachChild(node, (child) => visit(child, member));
  };
  const lookFor = (node) => {
    const members = ts.isClassDeclaration(node) ? membersOf(node) : [];
    for (const member of members) visit(member.body, member.name.getText());
    ts.forEachChild(node, lookFor);
  };
  lookFor(ts.createSourceFile('a.js', source, ts.ScriptTarget.Latest, true));
  return found;
}

/** Runs a program under the guard: `more` happens during a grant by an event. */
function runGuarded(more) {
  const helpers = JSON.stringify(require.resolve('../helpers/locks.js'));
  const library = JSON.stringify(LIB);
  const program = `
    require(${helpers});
    const lib = (file) => require(${library} + '/' + file);
    const { locks } = lib('index.js');
    const { Request } = lib('extensions/request/request.js');
    (async () => {
      let isReleased = false;
      const { granted } = Request.prototype;
      Request.prototype.granted = function (...token) {
        granted.apply(this, token);
        if (isReleased) { ${more} }
      };
      const held = await locks.acquire('b');
      const waiting = locks.request('b', () => {});
      isReleased = true;
      held.release();
      await waiting;
      console.log('done');
    })();`;
  return spawnSync(process.execPath, ['-e', program], { encoding: 'utf8', timeout: 60_000 });
}

describe('a member that applies an event', () => {
  it('calls only others of them, the clock and a map of ours', () => {
    for (const file of files) {
      assert.deepEqual(callsOfMembers(readFileSync(file, 'utf8')), [], file);
    }
  });

  it('is found in the source with all its calls', () => {
    const source =
      'class A extends Request { lost(a) { this.tell(); if (a) b(new C()); d(() => e()); now() } }';
    const calls = ['lost calls tell', 'lost calls b', 'lost calls C', 'lost calls d'];
    assert.deepEqual(callsOfMembers(source), calls);
  });

  it('may change fields', () => {
    const { stdout, stderr } = runGuarded('this.marked = true;');
    assert.equal(stdout, 'done\n', stderr);
  });

  for (const [what, wrong] of [
    ['asks a backend', 'this.backend.query();'],
    ['ends a request', 'this.backend.withdraw(this);'],
    ['calls the addon', "lib('backend/addon.js').addon.snapshot();"],
    ['announces', 'this.observer?.onGrant(); this.announceAnswer();'],
    ['collects more events', "lib('backend/native.js').agent.applyEvents();"],
  ]) {
    it(`ends the test if it ${what}`, () => {
      const { stdout, stderr, signal } = runGuarded(wrong);
      assert.deepEqual([stdout, signal], ['', 'SIGKILL']);
      assert.match(stderr, /was called while events were applied: /);
    });
  }
});
