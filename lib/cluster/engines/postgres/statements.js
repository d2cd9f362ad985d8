'use strict';

/** The statements of a session, and how their values are written in SQL. */

const { createHash } = require('node:crypto');

const { isRequest } = require('../../adapter.js');

/** @import { Op } from '../../adapter.js' */

/** @type {Record<Op['kind'], number>} */
const KINDS = {
  request: 0,
  ifAvailable: 1,
  steal: 2,
  end: 3,
  pass: 4,
  passIfAvailable: 5,
  publish: 6,
};

/** The code that the server returns for a request that waits. */
const WAITS = '0';

/** For so many ends after a wait, others probably wait for the name. */
const CONTENDED_ENDS = 8;

const NOTHING = Buffer.alloc(0);

/** UTF-16LE keeps lone surrogates. @param {string} text */
const bytes = (text) => Buffer.from(text, 'utf16le');
/**
 * A bytea in SQL. It contains no backslash, because the meaning of a backslash depends on settings.
 * @param {Buffer} value
 */
const literal = (value) => `decode('${value.toString('hex')}', 'hex')`;
/** SQL for a text in ASCII. @param {string} value */
const textLiteral = (value) => `encode(${literal(Buffer.from(value))}, 'escape')`;
/** @param {string} hex a bytea as `\\x` and digits */
const unhex = (hex) => Buffer.from(hex.slice(2), 'hex');
/** @param {string} hex see `unhex` */
const text = (hex) => unhex(hex).toString('utf16le');
/** JSON in ASCII, which every database encoding can represent. @param {unknown} value */
const asciiOf = (value) =>
  JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
/** @param {string | null} array of numbers, like `{1,2}` @returns {string[]} [] for null */
const listOf = (array) => (array === null || array === '{}' ? [] : array.slice(1, -1).split(','));

/** @param {Buffer[]} parts */
const sha256 = (...parts) =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();

/** The keys of a bucket's names. */
class NameKeys {
  #bucket;
  /** The keys of recently used names. @type {Map<string, Buffer>} */
  #keys = new Map();

  /** @param {string} bucket */
  constructor(bucket) {
    this.#bucket = sha256(bytes(bucket));
  }

  /** The SHA-256 of bucket and name. @param {string} name */
  of(name) {
    const known = this.#keys.get(name);
    if (known) return known;
    const key = sha256(this.#bucket, bytes(name));
    if (this.#keys.size >= 1_000) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}

/**
 * The frequent statements of a connection. Their texts contain the session, so that it need not be
 * sent with each call. The functions for a single operation cost a third less than `step`.
 */
class Statements {
  #keys;
  #texts;
  /**
   * The names for which this session had to wait, and for how many more ends others are expected to
   * wait for them, too. Such an end goes by the procedures of then_notify.sql, which cost more than
   * the functions. @type {Map<string | undefined, number>}
   */
  #waited;

  /**
   * @param {string} schema @param {string} session @param {number} number of the connection
   * @param {NameKeys} keys @param {boolean} [canNotifyLater] whether the schema has the procedures
   *   of then_notify.sql @param {Map<string | undefined, number>} [waited]
   */
  constructor(schema, session, number, keys, canNotifyLater = false, waited = new Map()) {
    /** @param {string} name @param {number} count of values @param {string[]} results */
    const callSql = (name, count, ...results) => {
      const values = Array.from({ length: count }, (_, i) => `$${i + 1}`);
      return `${schema}.${name}(${[session, number, ...values, ...results]})`;
    };
    /** For a step that may hand a lock over. @param {string} name @param {number} count */
    const handOverSql = (name, count) =>
      canNotifyLater
        ? `CALL ${callSql(`${name}_then_notify`, count, 'NULL')}`
        : `SELECT ${callSql(name, count)}`;
    this.#keys = keys;
    this.#waited = waited;
    this.renew = `SELECT * FROM ${callSql('renew', 3)}`;
    this.#texts = {
      step: `SELECT ${callSql('step', 14)}`,
      handOver: handOverSql('step', 14),
      request: `SELECT ${callSql('request_alone', 5)}`,
      requestWith: `SELECT ${callSql('request_alone', 12)}`,
      end: `SELECT ${callSql('end_alone', 3)}`,
      handOverAlone: handOverSql('end_alone', 3),
    };
  }

  /**
   * Notes for which names others may wait.
   * @param {Op[]} ops @param {string[]} codes of the server
   */
  noteWaits(ops, codes) {
    const waited = this.#waited;
    for (const [i, { kind, name }] of ops.entries()) {
      const ends = waited.get(name) ?? 0;
      if (kind === 'request' && codes[i] === WAITS) waited.set(name, CONTENDED_ENDS);
      else if (kind === 'end' && ends > 1) waited.set(name, ends - 1);
      else if (kind === 'end') waited.delete(name);
    }
    if (waited.size > 1_000) waited.clear();
  }

  /**
   * The statement and the values of a step.
   * @param {Op[]} ops @param {number} number
   * @param {boolean} listens whether the connection must begin to LISTEN with this step
   * @returns {[statement: string, values: unknown[]]}
   */
  stepOf(ops, number, listens) {
    const { end, handOver, handOverAlone, request, requestWith, step } = this.#texts;
    const mayHandOver = ops.some(({ kind, name }) => kind === 'end' && this.#waited.has(name));
    const [op] = ops;
    const isEnd = op.kind === 'end';
    const isPlain = op.kind === 'request' || op.kind === 'ifAvailable' || isEnd;
    if (ops.length > 1 || !isPlain || (isEnd && (op.name === undefined || op.markFor > 0)))
      return [mayHandOver ? handOver : step, this.#arraysOf(ops, number, listens)];
    const key = this.#keys.of(/** @type {string} */ (op.name));
    if (isEnd) return [mayHandOver ? handOverAlone : end, [number, op.ref, key]];
    const { kind, label, limit, maxPending, mode, name, priority, ref, weight } = op;
    const values = [number, kind === 'request', ref, key, bytes(name)];
    const isShared = mode === 'shared';
    if (!listens && !isShared && !label && maxPending < 0 && priority === 0)
      return [request, values];
    const its = [isShared, limit, weight, maxPending, priority, label ? bytes(label) : NOTHING];
    return [requestWith, [...values, ...its, listens]];
  }

  /** @param {Op[]} ops @param {number} number @param {boolean} listens */
  #arraysOf(ops, number, listens) {
    const requests = /** @type {any[]} */ (ops);
    /** @param {(op: any) => unknown} f */
    const each = (f) => requests.map(f);
    return [
      number,
      each((op) => KINDS[/** @type {Op['kind']} */ (op.kind)]),
      each((op) => op.ref),
      each((op) => (op.name === undefined ? null : this.#keys.of(op.name))),
      each((op) => (isRequest(op) ? bytes(op.name) : NOTHING)),
      each((op) => op.mode === 'shared'),
      each((op) => op.limit ?? 0),
      each((op) => op.weight ?? 0),
      each((op) => op.maxPending ?? -1),
      each((op) => op.priority ?? 0),
      each(({ data, label }) => (label ? bytes(label) : data ? Buffer.from(data) : NOTHING)),
      each((op) => op.group ?? 0),
      each((op) => op.markFor ?? 0),
      listens,
    ];
  }
}

module.exports = {
  NOTHING,
  NameKeys,
  Statements,
  asciiOf,
  bytes,
  listOf,
  literal,
  text,
  textLiteral,
  unhex,
};
