// slow: 37

'use strict';

const { describe, it } = require('node:test');
const { needs } = require('../helpers/needs.js');
const { LocalAgent, ProcessAgent, SessionAgent, WorkerAgent } = require('./agents.js');
const { LIMIT_MS, RUNS, compare } = require('./comparison.js');

describe('the lock manager does what the specification’s algorithms, written plainly, do', () => {
  const limit = { timeout: LIMIT_MS };

  it('with 4 agents in one thread', { ...limit, ...needs('loads') }, () =>
    compare(LocalAgent, 4, RUNS, { canEnd: false }),
  );

  it('with 4 sessions, which end now and then', { ...limit, ...needs('sessions') }, () =>
    compare(SessionAgent, 4, RUNS, { canEnd: true }),
  );

  it('with 3 agents in 3 workers, which end now and then', { ...limit, ...needs('threads') }, () =>
    compare(WorkerAgent, 3, Math.ceil(RUNS / 6), { canEnd: true }),
  );

  it('with 3 agents in 3 processes, killed now and then', { ...limit, ...needs('processes') }, () =>
    compare(ProcessAgent, 3, Math.ceil(RUNS / 15), { canEnd: true }),
  );
});
