'use strict';

/**
 * The thread that watches the clock for a test file (limit.js). When a test hangs, it writes a
 * report to standard error: which test, which locks of the process are held and pending, and where
 * each thread is. Then it ends the process and all processes that the test has started, so that the
 * runner counts the file as failed and continues with the others.
 *
 * The thread of the test either waits in its event loop or is blocked: in JavaScript, where the
 * inspector can pause it, or in native code. The watchdog waits for no other thread without a
 * limit.
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { Worker, parentPort, workerData } = require('node:worker_threads');

const ROOT = path.join(__dirname, '..', '..');
/** How long another thread may take to answer on a busy machine. */
const PATIENCE_MS = 10_000;
/** How long a thread may take that first has to start and load the library. */
const START_MS = 30_000;

const { file, limit } = workerData ?? {};
const write = (text) => fs.writeSync(2, `${text}\n`);

/** The tests that have begun and not ended, the innermost last. */
const running = [];
let lastEnded = '';
let isThere = () => {};
let timer;

/** @returns {Promise<any>} undefined if the promise rejects or takes too long */
async function inTime(promise, milliseconds = PATIENCE_MS) {
  let late;
  const limited = new Promise((resolve) => {
    late = setTimeout(resolve, milliseconds);
  });
  try {
    return await Promise.race([promise, limited]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(late);
  }
}

function take({ event, name }) {
  if (event === 'here') isThere(true);
  if (event === 'begin') running.push(name);
  if (event === 'end') {
    running.splice(running.lastIndexOf(name), 1);
    lastEnded = name;
  }
  if (event !== 'here') wind();
}

function wind() {
  clearTimeout(timer);
  timer = setTimeout(expire, limit);
}

/** An inspector of the main thread. */
class Inspector {
  #session;
  /** The files of the scripts, by id. */
  #scripts = new Map();

  constructor() {
    const { Session } = require('node:inspector');
    this.#session = new Session();
    this.#session.connectToMainThread();
    this.#session.on('Debugger.scriptParsed', ({ params }) => this.#learn(params));
  }

  /** An open session would keep a process from exiting. */
  end() {
    this.#session.disconnect();
  }

  #learn({ scriptId, url }) {
    this.#scripts.set(scriptId, url.replace(/^file:\/\//, ''));
  }

  /** @returns {string} the frames, without those of Node.js */
  textOf(frames) {
    const lines = frames.map(({ functionName, location, url }) => {
      const where = url || this.#scripts.get(location.scriptId);
      const at = `${where}:${location.lineNumber + 1}:${location.columnNumber + 1}`;
      return where?.startsWith('node:') ? '' : `    at ${functionName || '(anonymous)'} (${at})`;
    });
    return lines.filter(Boolean).join('\n') || '    (in Node.js)';
  }

  ask(method, parameters) {
    const answer = new Promise((resolve, reject) => {
      this.#session.post(method, parameters, (error, result) => {
        if (error) reject(new Error(error.message));
        else resolve(result);
      });
    });
    return inTime(answer);
  }

  async evaluate(expression) {
    return (await this.ask('Runtime.evaluate', { expression, returnByValue: true }))?.result?.value;
  }

  /** @returns the result of a function whose `this` is an object of the main thread */
  async call(objectId, functionDeclaration) {
    if (!objectId) return undefined;
    return (await this.ask('Runtime.callFunctionOn', { objectId, functionDeclaration }))?.result;
  }

  async properties(objectId, kind = 'result') {
    const how = { objectId, ownProperties: true };
    return (await this.ask('Runtime.getProperties', how))?.[kind] ?? [];
  }

  /** Pauses the main thread. @returns {Promise<any[] | undefined>} its frames */
  async pause() {
    const paused = new Promise((resolve) => {
      this.#session.once('Debugger.paused', ({ params }) => resolve(params.callFrames));
    });
    this.ask('Debugger.enable');
    this.ask('Debugger.pause');
    return inTime(paused);
  }

  /** @returns {Promise<string[]>} where each worker of the main thread is */
  async workers() {
    const workers = new Map();
    const answers = [];
    this.#session.on('NodeWorker.attachedToWorker', ({ params: { sessionId, workerInfo } }) => {
      // The watchdog would pause itself.
      if (workerInfo.url.endsWith('watchdog.js')) return;
      const worker = { url: workerInfo.url, stack: '    waits, or is in native code' };
      workers.set(sessionId, worker);
      answers.push(
        new Promise((resolve) => {
          worker.answered = resolve;
        }),
      );
      for (const [id, method] of ['Debugger.enable', 'Debugger.pause'].entries()) {
        const message = JSON.stringify({ id, method });
        this.ask('NodeWorker.sendMessageToWorker', { sessionId, message });
      }
    });
    this.#session.on('NodeWorker.receivedMessageFromWorker', ({ params }) => {
      const { method, params: told } = JSON.parse(params.message);
      if (method !== 'Debugger.paused') return;
      const worker = workers.get(params.sessionId);
      worker.stack = this.textOf(told.callFrames);
      worker.answered();
    });
    await this.ask('NodeWorker.enable', { waitForDebuggerOnStart: false });
    // A worker answers when it runs JavaScript; an idle one never does.
    await inTime(Promise.all(answers));
    return [...workers.values()].map(({ url, stack }) => `a worker, ${url}:\n${stack}`);
  }
}

/** @returns {number[]} the children of a process, and their children */
function descendants(pid) {
  const all = [];
  for (const task of fs.readdirSync(`/proc/${pid}/task`)) {
    const list = fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim();
    for (const child of list ? list.split(' ').map(Number) : [])
      all.push(child, ...descendants(child));
  }
  return all;
}

/** @returns {number[]} the descendants of this process; none where the system has no list */
function started() {
  try {
    return descendants(process.pid);
  } catch {
    return [];
  }
}

function commandOf(pid) {
  try {
    const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    const state = /^State:\s*(.*)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1];
    return `  ${pid} ${state}: ${command.slice(0, 300)}`;
  } catch {
    return `  ${pid} has ended`;
  }
}

/** Functions on the stacks of Node.js's threads that wait for work. */
const IDLE = /PlatformWorkerThread|StartIoThreadMain|DelayedTaskScheduler/;

/** @returns the native stacks of all threads but idle ones, if gdb is installed */
function nativeStacks() {
  const args = ['-p', String(process.pid), '-batch', '-ex', 'thread apply all backtrace 12'];
  const stdio = ['ignore', 'pipe', 'ignore'];
  try {
    const output = execFileSync('gdb', args, { encoding: 'utf8', timeout: 60_000, stdio });
    const threads = output.split(/^(?=Thread \d+ )/m).slice(1);
    return threads.filter((thread) => !IDLE.test(thread)).join('');
  } catch (error) {
    return `  not known: ${error.code === 'ENOENT' ? 'gdb is not installed' : error.message}`;
  }
}

/** Queries all lock managers. The inspector reads the promises later, without an await here. */
const ASK = `(process[Symbol.for('lock managers of the test')]?.() ?? []).map((manager) => {
  return manager.query({ details: true });
})`;

const TEXT = `function () {
  const { held, pending } = this;
  if (this.name === 'InvalidStateError') return ''; // Its bucket is closed.
  if (!Array.isArray(held)) return String(this);
  if (held.length === 0 && pending.length === 0) return '';
  const text = (_key, value) => (typeof value === 'bigint' ? String(value) : value);
  const line = (entry) => '\\n    ' + JSON.stringify(entry, text);
  const lines = (entries) => entries.map(line).join('');
  return '  held:' + lines(held) + '\\n  pending:' + lines(pending);
}`;

/**
 * @param {Inspector} inspector
 * @returns {Promise<string | undefined>} the locks that all lock managers of the main thread hold
 * and wait for, in any scope; undefined if that thread does not answer
 */
async function locksOfMain(inspector) {
  const answers = (await inspector.ask('Runtime.evaluate', { expression: ASK }))?.result;
  if (!answers?.objectId) return undefined;
  await delay(1_000);
  const states = [];
  for (const { name, value } of await inspector.properties(answers.objectId)) {
    if (!/^\d+$/.test(name)) continue;
    const slots = await inspector.properties(value.objectId, 'internalProperties');
    const slot = (title) => slots.find((one) => one.name === `[[${title}]]`)?.value;
    if (slot('PromiseState')?.value === 'pending')
      states.push('  (a lock manager does not answer)');
    else states.push((await inspector.call(slot('PromiseResult')?.objectId, TEXT))?.value);
  }
  return states.filter((state) => state !== '').join('\n') || '  none';
}

/** @returns the locks of the default bucket, from another thread: the core may be deadlocked */
async function locksOfProcess() {
  const worker = new Worker(__filename, { workerData: { isWitness: true }, execArgv: [] });
  const answer = new Promise((resolve) => worker.once('message', resolve));
  worker.once('error', () => {});
  worker.unref();
  return (await inTime(answer, START_MS)) ?? '  not known: the core does not answer';
}

async function witness() {
  const { inspect } = require('node:util');
  const { locks } = require(path.join(ROOT, 'lib', 'index.js'));
  parentPort.postMessage(inspect(await locks.query({ details: true }), { depth: 5 }));
}

async function expire() {
  const answer = new Promise((resolve) => {
    isThere = resolve;
  });
  parentPort.postMessage('are you there');
  const isTurning = (await inTime(answer)) === true;
  const what = running.at(-1) ?? `none, the last that ended is '${lastEnded}'`;
  write(`\n=== ${path.relative(ROOT, file)}: nothing has ended for ${limit / 1000} s`);
  write(`the test: ${what}`);
  try {
    await report(isTurning);
  } catch (error) {
    write(`the rest is not known: ${error.stack}`);
  }
  write('===');
  for (const pid of started()) kill(pid);
  if (isTurning) {
    parentPort.postMessage('exit');
    await delay(PATIENCE_MS);
  }
  kill(process.pid);
}

/** @param {boolean} isTurning */
async function report(isTurning) {
  const inspector = new Inspector();
  let frames;
  if (isTurning) {
    write('its thread waits, for one of:');
    write(`  ${await inspector.evaluate('process.getActiveResourcesInfo().join(", ")')}`);
  } else {
    frames = await inspector.pause();
    write(
      frames
        ? `its thread is blocked:\n${inspector.textOf(frames)}`
        : 'its thread is in native code',
    );
  }
  write('locks:');
  write((await locksOfMain(inspector)) ?? (await locksOfProcess()));
  const workers = await inspector.workers();
  for (const worker of workers) write(worker);
  const children = started();
  if (children.length > 0) write(`processes:\n${children.map(commandOf).join('\n')}`);
  // If the event loop runs, native stacks show nothing.
  if (!frames && (!isTurning || workers.length > 0)) write(`native stacks:\n${nativeStacks()}`);
  inspector.end();
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {}
}

const delay = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

if (workerData?.isWitness) {
  witness();
} else {
  parentPort.on('message', take);
  wind();
}
