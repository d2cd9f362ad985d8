#!/usr/bin/env node
'use strict';

require('../lib/cli/main.js').main(process.argv.slice(2));
