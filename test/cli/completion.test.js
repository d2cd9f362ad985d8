// slow: 2

'use strict';

/** `web-locks completion`. */

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { COMMANDS } = require('../../lib/cli/arguments.js');
const { PROGRAM } = require('./command.js');

const options = { encoding: 'utf8', cwd: __dirname };
const scripts = {};
const scriptFor = (shell) => {
  scripts[shell] ??= execFileSync(process.execPath, [PROGRAM, 'completion', shell], options);
  return scripts[shell];
};
const lacks = (tool) => spawnSync(tool, ['--version']).error && `${tool} is not installed`;
const linesOf = (output) => output.split('\n').filter(Boolean).sort();

/** @returns {string[]} what bash offers after these words */
function inBash(...words) {
  const script = `${scriptFor('bash')}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _web_locks; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return linesOf(execFileSync('bash', ['-c', script, 'bash', 'web-locks', ...words], options));
}

/** @returns {string[]} what fish offers after these words */
function inFish(...words) {
  const script = `${scriptFor('fish')}\ncomplete -C "web-locks $argv"`;
  const output = execFileSync('fish', ['--no-config', '-c', script, ...words], options);
  return linesOf(output).map((line) => line.split('\t')[0]);
}

const commands = Object.keys(COMMANDS).sort();
const longOf = (command) => Object.keys(COMMANDS[command].options).map((option) => `--${option}`);

for (const [shell, offers] of Object.entries({ bash: inBash, fish: inFish })) {
  describe(`completion in ${shell}`, { skip: lacks(shell) }, () => {
    it('offers commands and shells, and all options of each command', () => {
      assert.deepEqual(offers(''), commands);
      assert.deepEqual(offers('st'), ['steal']);
      assert.deepEqual(offers('completion', ''), ['bash', 'fish', 'zsh']);
      for (const command of commands) {
        const offered = offers(command, '--').filter((word) => /^--./.test(word));
        assert.deepEqual(offered, longOf(command).sort(), command);
      }
    });

    it('offers programs after --', () => {
      assert.ok(offers('run', 'a', '--', 'ech').includes('echo'));
    });
  });
}

it('completion in bash offers files where an option or argument takes one', {
  skip: lacks('bash'),
}, () => {
  assert.deepEqual(inBash('run', 'a', '--timeout', ''), []);
  assert.deepEqual(inBash('report', 'x.json', '--output', 'command.'), ['command.js']);
  assert.deepEqual(inBash('run', 'a', '-d', '../cl'), ['../cli', '../cluster']);
  assert.deepEqual(inBash('report', 'command.'), ['command.js']);
  assert.deepEqual(inBash('run', 'a', '--', 'cat', 'command.'), ['command.js']);
  for (const command of commands)
    assert.equal(inBash(command, '--').includes('--'), Boolean(COMMANDS[command].takesCommand));
});

it('completion in zsh is a valid script with every option', {
  skip: lacks('zsh'),
}, () => {
  const script = scriptFor('zsh');
  const isKnown = '[[ $_comps[web-locks] == _web-locks ]]';
  const check = `autoload -U compinit && compinit -D\n${script}\n${isKnown}`;
  execFileSync('zsh', ['-fc', check]);
  for (const command of commands)
    for (const option of longOf(command)) assert.ok(script.includes(option), option);
});
