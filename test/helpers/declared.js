'use strict';

/** Reads the declarations in types/shared.d.ts with the TypeScript compiler. */

const path = require('node:path');
// The newest version has no API for JavaScript.
const ts = require('typescript-oldest');

const SHARED = path.join(__dirname, '../../types/shared.d.ts');

const program = ts.createProgram([SHARED], { target: ts.ScriptTarget.ES2022, types: [] });
const checker = program.getTypeChecker();
const exported = new Map(
  checker
    .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(SHARED)))
    .map((symbol) => [symbol.name, symbol]),
);

/** The names of the fields of a type, sorted. */
const namesOf = (type) =>
  checker
    .getPropertiesOfType(type)
    .map(({ name }) => name)
    .sort();

/** The names of the fields of an exported interface or type, sorted. */
const fieldsOf = (name) => namesOf(checker.getDeclaredTypeOfSymbol(exported.get(name)));

/** The types of the fields of an exported interface, as text, by name. */
function typesOf(name) {
  const properties = checker.getPropertiesOfType(
    checker.getDeclaredTypeOfSymbol(exported.get(name)),
  );
  const typeOf = (symbol) =>
    checker.typeToString(checker.getTypeOfSymbolAtLocation(symbol, symbol.valueDeclaration));
  return Object.fromEntries(properties.map((symbol) => [symbol.name, typeOf(symbol)]));
}

/** The names of the options that a method of a class takes in any of its overloads, sorted. */
function optionsOf(className, method) {
  const type = checker.getDeclaredTypeOfSymbol(exported.get(className));
  const symbol = checker.getPropertyOfType(type, method);
  const forms = checker.getTypeOfSymbolAtLocation(symbol, symbol.valueDeclaration);
  const names = new Set();
  for (const form of forms.getCallSignatures()) {
    const options = form.getParameters().find((parameter) => parameter.name === 'options');
    if (!options) continue;
    const of = checker.getTypeOfSymbolAtLocation(options, options.valueDeclaration);
    for (const name of namesOf(checker.getNonNullableType(of))) names.add(name);
  }
  return [...names].sort();
}

module.exports = { fieldsOf, optionsOf, typesOf };
