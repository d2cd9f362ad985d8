'use strict';

/** Prints a module definition file with the functions of Node-API that node.exe exports. */

const { symbols } = require('node-api-headers');

const { node_api_symbols: node, js_native_api_symbols: javascript } = symbols.v6;
const lines = ['NAME NODE.EXE', 'EXPORTS', ...[...javascript, ...node].sort()];
process.stdout.write(`${lines.join('\n')}\n`);
