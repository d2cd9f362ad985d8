'use strict';

/**
 * Type-checks what the documents show, as a TypeScript user with strict settings would write it:
 * each block of JavaScript in README.md and docs/*.md is a module of its own, with the names of
 * prelude.d.ts. Prints what the compiler says with the file and line of the document.
 */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..', '..');
const folder = path.join(root, 'build', 'documents');
const FENCE = /^( *)```(\w*)/;

/**
 * @param {string} text
 * @returns {{ start: number, lines: string[] }[]} the blocks, and the index of the first line of each
 */
function blocks(text) {
  const found = [];
  let open;
  for (const [i, line] of text.split('\n').entries()) {
    const fence = FENCE.exec(line);
    if (!fence) open?.lines.push(line);
    else if (open) {
      if (/^(js|mjs|ts)$/.test(open.language)) found.push(open);
      open = undefined;
    } else open = { language: fence[2], start: i + 1, lines: [] };
  }
  return found;
}

/** CommonJS as the compiler understands it in a module, each line where it was. */
const toModule = (line) =>
  line
    .replace(
      /^const (.+) = require\(('[^']+')\);/,
      (_, names, module) => `import ${names.replaceAll(': ', ' as ')} from ${module};`,
    )
    .replace(/require\(('[^']+')\)/, '(await import($1)).default');

function extract() {
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  const documents = [
    'README.md',
    ...fs.readdirSync(path.join(root, 'docs')).map((f) => `docs/${f}`),
  ];
  let count = 0;
  for (const document of documents.filter((file) => file.endsWith('.md'))) {
    for (const { start, lines } of blocks(fs.readFileSync(path.join(root, document), 'utf8'))) {
      // `start` lines before it, so that the compiler's line is the document's.
      const content = `export {};${'\n'.repeat(start)}${lines.map(toModule).join('\n')}\n`;
      const name = `${document.replaceAll('/', '__')}.${start + 1}.mts`;
      fs.writeFileSync(path.join(folder, name), content);
      count++;
    }
  }
  return count;
}

const count = extract();
const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const project = path.join(__dirname, 'tsconfig.json');
const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', project, '--pretty', 'false'], {
  cwd: root,
  encoding: 'utf8',
});
const told = stdout.replaceAll(
  /^build\/documents\/(.+)\.\d+\.mts\((\d+),\d+\)/gm,
  (_, name, line) => `${name.replaceAll('__', '/')}:${line}`,
);
process.stdout.write(told);
if (count === 0) console.log('no document has an example');
process.exitCode = count === 0 ? 1 : status;
