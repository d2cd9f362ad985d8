'use strict';

/**
 * Type-checks the code of the documents, as a TypeScript user with strict settings would write it.
 * Each block of JavaScript in README.md and docs/*.md is a module, with the program of which it is
 * a fragment (test/documents/blocks.js). A block with types in its comments is checked as
 * JavaScript, and one whose language is `javascript` instead of `js` is not checked. Errors of the
 * compiler are printed with the file and line of the document.
 */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { blocksOf, pages, root } = require('../../documents/blocks.js');

const folder = path.join(root, 'build', 'documents');
const application = path.join(root, 'test', 'documents', 'application.mjs');
/** Code that this test does not run, and that uses declarations of other packages. */
const FOREIGN = /\b(jest|vi|afterEach|expect)\b|node-loader/;

/** Converts CommonJS to a form that the compiler understands in a module, line by line. */
const toModule = (line) =>
  line
    .replace(
      /^const (.+) = require\(('[^']+')\);/,
      (_, names, module) => `import ${names.replaceAll(': ', ' as ')} from ${module};`,
    )
    .replace(/require\(('[^']+')\)/, '(await import($1)).default');

/** @returns {Map<string, number>} for each module, the line of its document before its first */
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
