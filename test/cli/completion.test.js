// slow: 5

'use strict';

/** `web-locks completion`. */

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { COMMANDS } = require('../../lib/cli/arguments.js');
const { PROGRAM } = require('./command.js');

const scriptFor = (shell) =>
  execFileSync(process.execPath, [PROGRAM, 'completion', shell], { encoding: 'utf8' });
const lacks = (tool) => spawnSync(tool, ['--version']).error && `${tool} is not installed`;

/** @returns {string[]} what bash offers after these words */
function inBash(...words) {
  const script = `${scriptFor('bash')}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _web_locks; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = execFileSync('bash', ['-c', script, 'bash', 'web-locks', ...words], {
    encoding: 'utf8',
    cwd: __dirname,
  });
  return output.split('\n').filter(Boolean).sort();
}

/** @returns {string[]} what fish offers after these words */
function inFish(...words) {
  const script = `${scriptFor('fish')}\ncomplete -C "web-locks $argv"`;
  const output = execFileSync('fish', ['--no-config', '-c', script, ...words], {
    encoding: 'utf8',
  });
  return output
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t')[0])
    .sort();
}

const commands = Object.keys(COMMANDS).sort();
const longOf = (command) => Object.keys(COMMANDS[command].options).map((option) => `--${option}`);

describe('completion in bash', { skip: lacks('bash') }, () => {
  it('of commands', () => {
    assert.deepEqual(inBash(''), commands);
    assert.deepEqual(inBash('st'), ['steal']);
  });

  for (const command of commands) {
    it(`of all options of ${command}`, () => {
      const more = COMMANDS[command].takesCommand ? ['--'] : [];
      assert.deepEqual(inBash(command, '--'), [...longOf(command), ...more].sort());
    });
  }

  it('of what an option takes', () => {
    assert.deepEqual(inBash('run', 'a', '--timeout', ''), []);
    assert.deepEqual(inBash('report', 'x.json', '--output', 'command.'), ['command.js']);
    assert.deepEqual(inBash('run', 'a', '-d', '../cl'), ['../cli', '../cluster']);
  });

  it('of files, shells, and of the command that is to run', () => {
    assert.deepEqual(inBash('report', 'command.'), ['command.js']);
    assert.deepEqual(inBash('completion', ''), ['bash', 'fish', 'zsh']);
    assert.ok(inBash('run', 'a', '--', 'ech').includes('echo'));
    assert.deepEqual(inBash('run', 'a', '--', 'cat', 'command.'), ['command.js']);
  });
});

describe('completion in fish', { skip: lacks('fish') }, () => {
  it('of commands, options, and the command that is to run', () => {
    assert.deepEqual(inFish(''), commands);
    for (const command of commands)
      assert.deepEqual(
        inFish(command, '--').filter((word) => word.startsWith('--')),
        longOf(command).sort(),
      );
    assert.deepEqual(inFish('completion', ''), ['bash', 'fish', 'zsh']);
    assert.ok(inFish('run', 'a', '--', 'ech').includes('echo'));
  });
});

describe('completion in zsh', { skip: lacks('zsh') }, () => {
  it('is a script that zsh takes, with every option', () => {
    const script = scriptFor('zsh');
    execFileSync('zsh', [
      '-fc',
      `autoload -U compinit && compinit -D\n${script}\n[[ $_comps[web-locks] == _web-locks ]]`,
    ]);
    for (const command of commands)
      for (const option of longOf(command)) assert.ok(script.includes(option), option);
  });
});
