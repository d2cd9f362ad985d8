'use strict';

/**
 * Lists every text of the library and the command line that a person can read: errors, warnings,
 * reasons, usage. They are in docs/internals/messages.md, to be read in one go; the lint fails if
 * that page is not what the sources have.
 *
 *   messages.js            writes the page
 *   messages.js --check    fails if the page would change
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const ts = require('typescript-oldest');

const root = path.join(__dirname, '..');
const PAGE = path.join(root, 'docs', 'internals', 'messages.md');
/** Files that are generated, that only programs read, or that belong to tests and the compiler. */
const OTHERS = /\.(sql|lua)\.js$|\/page\/|cli\/completion\.js$|\.h$|\/(check|verify|layout)\.c$/;

/** SQL, patterns and headers are texts that only programs read. */
const FOR_MACHINES =
  /^\s*(SELECT|SET|BEGIN|AND|NOTIFY)\b|^decode\('|IS NOT NULL|\^\(\?|[A-Z]\|[A-Z]|-src '/;
/** The subject of a message, or a call that failed, which other texts complete. */
const PART_OF_OTHERS = /^(The )?'[^']+' (option|on '\w+')$/;
/** Texts that these calls search for come from other programs. */
const SEARCH = /\.(includes|startsWith|endsWith)$/;

/** @param {string} text @returns {boolean} whether it has three words or more */
function isProse(text) {
  const words = text.replace(/\$\{[^}]*\}/g, '0').match(/[A-Za-z'’]{2,}|0/g) ?? [];
  const isSaid = words.length >= 3 && words.filter((word) => word !== '0').length >= 2;
  return isSaid && /\s/.test(text) && !FOR_MACHINES.test(text) && !PART_OF_OTHERS.test(text);
}

/** @param {string} file @returns {string[]} the texts of a JavaScript file in their order */
function textsOf(file) {
  const source = ts.createSourceFile(
    file,
    fs.readFileSync(path.join(root, file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
  );
  /** @type {string[]} */
  const texts = [];
  /** @param {ts.Node} node */
  const textOf = (node) => {
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
    if (ts.isTemplateExpression(node)) {
      const spans = node.templateSpans.map(
        ({ expression, literal }) => `\${${nameOf(expression)}}${literal.text}`,
      );
      return node.head.text + spans.join('');
    }
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
      const [left, right] = [textOf(node.left), textOf(node.right)];
      return left === undefined || right === undefined ? undefined : left + right;
    }
    return undefined;
  };
  const nameOf = (/** @type {ts.Expression} */ expression) => {
    const text = expression.getText().replace(/\s+/g, ' ');
    return text.length > 40 ? `${text.slice(0, 40)}…` : text;
  };
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isCallExpression(node) && SEARCH.test(node.expression.getText())) return;
    const text = textOf(node);
    if (text !== undefined) {
      if (isProse(text)) texts.push(text);
      if (!ts.isTemplateExpression(node)) return;
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return texts;
}

/** @param {string} file @returns {string} the code of C without comments and assertions */
const codeOf = (file) =>
  fs
    .readFileSync(path.join(root, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|^#include.*$|(_S|\bs)tatic_assert\([^;]*;|\\$/gm, '');

const STRING = '"(?:[^"\\\\\\n]|\\\\.)*"';
/** Adjacent strings and macros form one text. */
const TEXT = `(?:[A-Z][A-Z_]+\\s+)?${STRING}(?:\\s*(?:${STRING}|[A-Z][A-Z_]+\\b))*`;
const PART = new RegExp(`${STRING}|[A-Z][A-Z_]+`, 'g');

/**
 * @param {string[]} files of C
 * @returns {Map<string, string>} the macros that stand for a text, each with its first definition
 */
function macrosOf(files) {
  const definitions = new RegExp(`^#define\\s+([A-Z_]+)\\s+(${TEXT})`, 'gm');
  return new Map(
    files
      .flatMap((file) => [...codeOf(file).matchAll(definitions)])
      .reverse()
      .map(([, name, value]) => [name, value]),
  );
}

/** @param {string} text */
const unescaped = (text) => text.replace(/\\(["\\])/g, '$1');

/**
 * @param {string} text @param {Map<string, string>} macros
 * @returns {string} the text without quotes
 */
const joined = (text, macros) =>
  (text.match(PART) ?? [])
    .map((part) =>
      part[0] === '"' ? unescaped(part.slice(1, -1)) : joined(macros.get(part) ?? '', macros),
    )
    .join('');

/**
 * @param {string} file @param {Map<string, string>} macros
 * @returns {string[]} the texts of a C file
 */
const textsOfC = (file, macros) =>
  (
    codeOf(file)
      .replace(/^#define\s+\w+/gm, ';')
      .match(new RegExp(TEXT, 'g')) ?? []
  )
    .map((text) => joined(text, macros))
    .filter(isProse);

/** @param {string} file @returns {string[]} the texts of the errors that Lua or SQL raises */
const textsOfScript = (file) =>
  [
    ...fs
      .readFileSync(path.join(root, file), 'utf8')
      .matchAll(/\b(?:error\(|error_reply\(|RAISE EXCEPTION )'([^']+)'/g),
  ]
    .map(([, text]) => text)
    .filter(isProse);

const all = execFileSync('git', ['ls-files', 'lib', 'src'], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n');
const macros = macrosOf(all.filter((file) => /\.(c|cc|h)$/.test(file)));
/** @param {string} file */
const cTexts = (file) => textsOfC(file, macros);
/** @type {Record<string, (file: string) => string[]>} by extension */
const READERS = {
  '.c': cTexts,
  '.cc': cTexts,
  '.js': textsOf,
  '.lua': textsOfScript,
  '.sql': textsOfScript,
};
const sections = all.map((file) => {
  if (OTHERS.test(file)) return '';
  const texts = READERS[path.extname(file)]?.(file) ?? [];
  const lines = [...new Set(texts)].map((text) =>
    text.includes('\n')
      ? `\`\`\`text\n${text.trim()}\n\`\`\``
      : `- ${text.replace(/^[.,;:] /, '').trim()}`,
  );
  return lines.length > 0 ? `## ${file}\n\n${lines.join('\n')}\n` : '';
});
const page = `# Messages

Every text that a person can read, as \`node scripts/messages.js\` finds them in the sources.
CONTRIBUTING.md says how they are written.

${sections.filter(Boolean).join('\n')}`;

if (!process.argv.includes('--check')) fs.writeFileSync(PAGE, page);
else if (!fs.existsSync(PAGE) || fs.readFileSync(PAGE, 'utf8') !== page) {
  console.error(
    'docs/internals/messages.md is not what the sources have: node scripts/messages.js',
  );
  process.exitCode = 1;
}
