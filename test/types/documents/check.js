'use strict';

/**
 * Type-checks what the documents show, as a TypeScript user with strict settings would write it: each
 * block of JavaScript in README.md and docs/*.md is a module of its own, with the program of which it
 * is a fragment (test/documents/blocks.js). One that has types in its comments is checked as
 * JavaScript, and one whose language is `javascript`, not `js`, is not checked. Prints what the
 * compiler says with the file and line of the document.
 */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { blocksOf, pages, root } = require('../../documents/blocks.js');

const folder = path.join(root, 'build', 'documents');
const application = path.join(root, 'test', 'documents', 'application.mjs');
/** What is run by no program of ours, and uses what others declare. */
const FOREIGN = /\b(jest|vi|afterEach|expect)\b|node-loader/;

/** CommonJS as the compiler understands it in a module, each line where it was. */
const toModule = (line) =>
  line
    .replace(
      /^const (.+) = require\(('[^']+')\);/,
      (_, names, module) => `import ${names.replaceAll(': ', ' as ')} from ${module};`,
    )
    .replace(/require\(('[^']+')\)/, '(await import($1)).default');

/** @returns {Map<string, number>} the line of its document that is before the first of each module */
function extract() {
  fs.rmSync(folder, { recursive: true, force: true });
  const offsets = new Map();
  for (const page of pages()) {
    const own = path.join(folder, page.replaceAll('/', '__'));
    fs.mkdirSync(own, { recursive: true });
    fs.copyFileSync(application, path.join(own, path.basename(application)));
    for (const { after, before, code, keys, language, line } of blocksOf(page)) {
      if (!/^(js|ts)$/.test(language) || FOREIGN.test(code.join('\n'))) continue;
      if (keys.file) fs.writeFileSync(path.join(own, keys.file), code.join('\n'));
      const content = [...before, ...code, ...after, 'export {};'].map(toModule).join('\n');
      const ending = content.includes('/** @') ? 'mjs' : 'mts';
      fs.writeFileSync(path.join(own, `${line}.${ending}`), `${content}\n`);
      offsets.set(`${path.basename(own)}/${line}`, line - before.length - 1);
    }
  }
  return offsets;
}

const offsets = extract();
const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const project = path.join(__dirname, 'tsconfig.json');
const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', project, '--pretty', 'false'], {
  cwd: root,
  encoding: 'utf8',
});
const told = stdout.replaceAll(
  /^build\/documents\/((.+)\/\d+)\.m[jt]s\((\d+),\d+\)/gm,
  (_, module, page, line) => `${page.replaceAll('__', '/')}:${Number(line) + offsets.get(module)}`,
);
process.stdout.write(told);
if (offsets.size === 0) console.log('no document has an example');
process.exitCode = offsets.size === 0 ? 1 : status;
