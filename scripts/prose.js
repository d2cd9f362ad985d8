'use strict';

/**
 * Checks the language of comments and documents, and the names of predicates and classes; part of
 * the lint. CONTRIBUTING.md says what each rule is for. It prints every place that breaks one, and
 * the exit code is 1 if there is any.
 *
 *   prose.js            checks all
 *   prose.js --count    prints how often each rule is broken in each folder
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const ts = require('typescript-oldest');

const root = path.join(__dirname, '..');

/** A sentence with such a beginning lacks its noun. */
const HEADLESS =
  /^(Of (those|these|what|them)\b|Who\b|Whoever\b|What (is|was|has|it|they|a|the)\b|That\b(?! (is|was|would|way|call|one)\b)|Those\b|Not (before|where|when|if|as)\b|One that\b|As\b(?! (soon|long)\b)|Also\b)/;
/** Only the first sentence of a comment may begin so, to say what a boolean means. */
const WHETHER = /^Whether\b/;
/** The field has other words for these: notifies, receives, until. */
const PASSIVE = /\b(is|are|was|were|be|been|being) told\b|\bhears? of\b/i;
const LONGEST = 30;

/** @param {string} word of a sentence whose code was replaced */
const isWord = (word) => word !== '' && !/CODE|^[-–—]$/.test(word);

/** @typedef {{ file: string, line: number, rule: string, text: string }} Finding */

/** @type {Finding[]} */
const findings = [];

/** @param {string} file @param {number} line @param {string} rule @param {string} text */
const report = (file, line, rule, text) => findings.push({ file, line, rule, text });

/** @param {string} text @returns {string[]} sentences without code, links and marks */
const sentencesOf = (text) =>
  text
    .replace(/`[^`]*`/g, 'CODE')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/\{@\w+ [^}]*\}/g, 'CODE')
    .replace(/[*_]{1,2}/g, '')
    .split(/(?<=[.!?:])\s+(?=[A-Z"'(])|\n\s*\n|\n\s*(?=[-*] |\d+\. )/)
    .map((sentence) => sentence.replace(/\s+/g, ' ').trim())
    .filter((sentence) => sentence !== '');

/** @param {string} file @param {number} line @param {string} text @param {boolean} isComment */
function checkProse(file, line, text, isComment) {
  for (const [i, sentence] of sentencesOf(text).entries()) {
    if (isComment && (HEADLESS.test(sentence) || (i > 0 && WHETHER.test(sentence))))
      report(file, line, 'noun', sentence);
    if (PASSIVE.test(sentence)) report(file, line, 'told', sentence);
    // The parts of a sentence between colons and semicolons are read as separate sentences.
    const lengths = sentence.split(/[:;]/).map((part) => part.split(' ').filter(isWord).length);
    const words = Math.max(...lengths);
    if (words > LONGEST) report(file, line, 'long', `${words} words: ${sentence}`);
  }
}

/**
 * @param {string} comment
 * @param {RegExp} [list] matches lines of a list of parameters, which is no prose
 * @returns {string} the prose, without tags of JSDoc
 */
function textOf(comment, list = /^ {3,}|^ {0,2}\S+( \S+)? {2,}/) {
  const lines = comment
    .replace(/^\/\*+|\*+\/$|^\/\//g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*(\*|\/\/) ?/, ''));
  const prose = [];
  for (const line of lines) {
    if (/^\s*@/.test(line)) break;
    // Tables, diagrams and code are no prose.
    prose.push(list.test(line) || /[│─┌└▶|]|@\w+ \{/.test(line) ? '' : line);
  }
  return prose.join('\n');
}

/** Checks comments of JavaScript. Adjacent line comments are one comment. @param {string} file */
function checkJavaScript(file) {
  const source = fs.readFileSync(path.join(root, file), 'utf8');
  const scanner = ts.createScanner(
    ts.ScriptTarget.Latest,
    false,
    ts.LanguageVariant.Standard,
    source,
  );
  const lineAt = (/** @type {number} */ at) => source.slice(0, at).split('\n').length;
  let pending = { line: 0, end: -2, text: '' };
  const flush = () => {
    if (pending.text) checkProse(file, pending.line, pending.text, true);
    pending = { line: 0, end: -2, text: '' };
  };
  for (let kind = scanner.scan(); kind !== ts.SyntaxKind.EndOfFileToken; kind = scanner.scan()) {
    const isLine = kind === ts.SyntaxKind.SingleLineCommentTrivia;
    if (!isLine && kind !== ts.SyntaxKind.MultiLineCommentTrivia) continue;
    const line = lineAt(scanner.getTokenPos());
    const text = textOf(scanner.getTokenText());
    if (isLine && line === pending.end + 1) {
      pending.text += `\n${text}`;
      pending.end = line;
      continue;
    }
    flush();
    if (isLine) pending = { line, end: line, text };
    else checkProse(file, line, text, true);
  }
  flush();
}

/** Checks comments of C or C++. @param {string} file */
function checkC(file) {
  const source = fs.readFileSync(path.join(root, file), 'utf8');
  for (const match of source.matchAll(/\/\*[\s\S]*?\*\/|(?:^[ \t]*\/\/.*\n?)+/gm)) {
    const line = source.slice(0, match.index).split('\n').length;
    checkProse(file, line, textOf(match[0].trim(), /^ {2,}/), true);
  }
}

/** Checks comments of Lua or SQL. @param {string} file */
function checkDashes(file) {
  const source = fs.readFileSync(path.join(root, file), 'utf8');
  for (const match of source.matchAll(/(?:^ *--.*\n?)+/gm)) {
    const line = source.slice(0, match.index).split('\n').length;
    checkProse(file, line, textOf(match[0].replace(/^ *--/gm, '//'), /^ {2,}/), true);
  }
}

/** Checks a document without its code, tables and comments. @param {string} file */
function checkDocument(file) {
  const text = fs
    .readFileSync(path.join(root, file), 'utf8')
    .replace(/^ *```[\s\S]*?^ *```/gm, (block) => block.replace(/[^\n]/g, ''))
    .replace(/<!--[\s\S]*?-->/g, (block) => block.replace(/[^\n]/g, ''))
    .replace(/^( *\||#).*$/gm, '');
  let line = 1;
  for (const paragraph of text.split(/\n\n/)) {
    checkProse(file, line, paragraph, false);
    line += paragraph.split('\n').length + 1;
  }
}

/** Checks the names of predicates and classes, with the types of lib. */
function checkNames() {
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile);
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram(fileNames, options);
  const checker = program.getTypeChecker();
  /** @type {Map<string, string>} */
  const classes = new Map();
  const isBoolean = (/** @type {ts.Type} */ type) =>
    (type.isUnion() ? type.types : [type]).every(
      ({ flags }) => flags & (ts.TypeFlags.BooleanLike | ts.TypeFlags.Undefined),
    );
  for (const source of program.getSourceFiles()) {
    const file = path.relative(root, source.fileName);
    if (!file.startsWith('lib/') || source.isDeclarationFile) continue;
    const place = (/** @type {ts.Node} */ node) =>
      source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    /** @param {ts.Node} node */
    const assigns = (node) => {
      let found = false;
      /** @param {ts.Node} inner */
      const visit = (inner) => {
        if (ts.isFunctionLike(inner) && inner !== node) return;
        const target = ts.isBinaryExpression(inner)
          ? inner.operatorToken.kind >= ts.SyntaxKind.FirstAssignment &&
            inner.operatorToken.kind <= ts.SyntaxKind.LastAssignment &&
            inner.left
          : (ts.isPrefixUnaryExpression(inner) || ts.isPostfixUnaryExpression(inner)) &&
            inner.operator !== ts.SyntaxKind.ExclamationToken &&
            inner.operand;
        if (target && ts.isPropertyAccessExpression(target)) found = true;
        ts.forEachChild(inner, visit);
      };
      visit(node);
      return found;
    };
    /** @param {ts.Node} node */
    const visit = (node) => {
      if (ts.isClassDeclaration(node) && node.name) {
        const name = node.name.text;
        if (classes.has(name))
          report(file, place(node), 'class', `${name} is in ${classes.get(name)}, too`);
        classes.set(name, file);
      }
      const named =
        (ts.isMethodDeclaration(node) || ts.isFunctionDeclaration(node)) && node.body && node.name;
      const name = named ? named.getText() : '';
      // `isBusy` of lock managers is public, and asks a server.
      if (/^#?(is|has|can)[A-Z]/.test(name) && name !== 'isBusy') {
        const signature = checker.getSignatureFromDeclaration(
          /** @type {ts.SignatureDeclaration} */ (node),
        );
        if (signature && !isBoolean(checker.getReturnTypeOfSignature(signature)))
          report(file, place(node), 'predicate', `${name} does not return a boolean`);
        else if (assigns(node)) report(file, place(node), 'predicate', `${name} changes state`);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
}

const FOLDERS = ['src', 'lib', 'bin', 'bench', 'examples', 'scripts', 'test', 'docs', '*.md'];
const files = execFileSync('git', ['ls-files', ...FOLDERS], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n');
for (const file of files) {
  if (/\.(js|mjs)$/.test(file)) checkJavaScript(file);
  else if (/\.(c|h|cc)$/.test(file)) checkC(file);
  else if (/\.(lua|sql)$/.test(file)) checkDashes(file);
  else if (file.endsWith('.md') && !/^docs\/internals\/|^CHANGELOG/.test(file)) checkDocument(file);
}
checkNames();

if (process.argv.includes('--count')) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { file, rule } of findings) {
    const key = `${path.dirname(file)} ${rule}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  for (const key of Object.keys(counts).sort()) console.log(`${counts[key]}\t${key}`);
} else {
  for (const { file, line, rule, text } of findings)
    console.log(`${file}:${line}: ${rule}: ${text}`);
}
process.exitCode = findings.length > 0 ? 1 : 0;
