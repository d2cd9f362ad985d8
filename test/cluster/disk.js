'use strict';

/** A disk (disk.c) that forgets all writes which were not synced before a power loss. */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { programs } = require('../helpers/programs.js');

const FLAGS = '-std=c11 -O1 -Wall -Wextra -Wconversion -Werror -fPIC -shared -o'.split(' ');
/** Before its bytes, a change has their offset, their length, and the file's size. */
const HEADER = 24;

/** @param {Buffer} log @returns its changes, the last one first; a partial one did not happen */
function changesIn(log) {
  const changes = [];
  for (let at = 0; at + HEADER <= log.length; ) {
    const [offset, length, size] = [0, 8, 16].map((i) => Number(log.readBigInt64LE(at + i)));
    at += HEADER + length;
    if (at <= log.length) changes.unshift({ offset, bytes: log.subarray(at - length, at), size });
  }
  return changes;
}

class Disk {
  #undo;
  /** How many changes the last power loss undid. */
  forgotten = 0;

  /**
   * @param {string} undo a folder of the server's user
   * @param {string} start of the paths of the files on it
   */
  constructor(undo, start) {
    const library = path.join(undo, 'disk.so');
    execFileSync(programs.gcc, [...FLAGS, library, path.join(__dirname, 'disk.c')]);
    this.#undo = undo;
    /** The environment of a program that uses this disk. */
    this.environment = { LD_PRELOAD: library, WEB_LOCKS_UNDO: undo, WEB_LOCKS_DISK: start };
  }

  /** Puts all files back to their last sync. No process may use them. */
  forget() {
    this.forgotten = 0;
    for (const name of fs.readdirSync(this.#undo).filter((name) => name.endsWith('.file'))) {
      const link = path.join(this.#undo, name);
      const log = link.replace('.file', '');
      const file = fs.openSync(link, 'r+');
      for (const { bytes, offset, size } of changesIn(fs.readFileSync(log))) {
        fs.writeSync(file, bytes, 0, bytes.length, offset);
        fs.ftruncateSync(file, size);
        this.forgotten++;
      }
      fs.closeSync(file);
      for (const old of [link, log]) fs.rmSync(old);
    }
  }
}

module.exports = { Disk };
