'use strict';

/**
 * The wall clock of a process that runs, which can be set; its other clocks go on. Programs in Go ask
 * the kernel for the time and not the C library, so libfaketime does not reach them. But they ask by
 * the code that the kernel maps into each process, the vDSO, of which a process has a copy of its own
 * once somebody writes to it.
 */

const assert = require('node:assert/strict');
const fs = require('node:fs');

/** Why there is no such clock, or false; for the `skip` option of a test. */
const lacksWallClock =
  process.platform === 'linux' && process.arch === 'x64'
    ? false
    : 'the clock of a process can be set on Linux, x64';

/** clock_gettime(rdi, rsi), and if that is CLOCK_REALTIME, as many seconds more as stand behind it. */
const CLOCK_GETTIME = Buffer.from(
  [
    'b8e4000000', //      mov eax, SYS_clock_gettime
    '0f05', //            syscall
    '85ff', //            test edi, edi
    '750a', //            jnz 1f
    '488b0d0e000000', //  mov rcx, [rip + 14]: at SECONDS_AT
    '48010e', //          add [rsi], rcx
    'c3', //           1: ret
  ].join(''),
  'hex',
);
const SECONDS_AT = 32;
/** Of what is written at the end of the mapping. */
const SIZE = 64;
/** Of the jump to it. */
const JUMP = 5;

/** Of section headers: a table of symbols. */
const SHT_DYNSYM = 11;

class WallClock {
  #memory;
  /** Where the seconds are. */
  #at;

  /** @param {number} pid of a process of the user's own, or of anybody if the user is root */
  constructor(pid) {
    const maps = fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n');
    const [range] = maps.find((line) => line.endsWith('[vdso]')).split(' ');
    const [from, to] = range.split('-').map((address) => Number.parseInt(address, 16));
    this.#memory = fs.openSync(`/proc/${pid}/mem`, 'r+');
    const image = Buffer.alloc(to - from);
    fs.readSync(this.#memory, image, 0, image.length, from);
    assert.ok(
      image.subarray(-SIZE).every((byte) => byte === 0),
      'the vDSO has no room',
    );
    this.#at = to - SIZE + SECONDS_AT;
    this.#write(CLOCK_GETTIME, to - SIZE);
    const entry = from + addressOf(image, '__vdso_clock_gettime');
    const jump = Buffer.from([0xe9, 0, 0, 0, 0]);
    jump.writeInt32LE(to - SIZE - (entry + JUMP), 1);
    whileOutside(pid, entry + 1, entry + JUMP, () => this.#write(jump, entry));
  }

  #write(bytes, address) {
    fs.writeSync(this.#memory, bytes, 0, bytes.length, address);
  }

  /** @param {number} seconds that it is ahead of that of this machine */
  set(seconds) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(seconds));
    this.#write(bytes, this.#at);
  }

  close() {
    fs.closeSync(this.#memory);
  }
}

/** @returns {number} where a symbol of an ELF file is */
function addressOf(image, name) {
  const [sections, size, count] = [
    Number(image.readBigUInt64LE(0x28)),
    image.readUInt16LE(0x3a),
    image.readUInt16LE(0x3c),
  ];
  const headers = Array.from({ length: count }, (_, i) => image.subarray(sections + i * size));
  const contentOf = (header) => {
    const from = Number(header.readBigUInt64LE(0x18));
    return image.subarray(from, from + Number(header.readBigUInt64LE(0x20)));
  };
  const header = headers.find((one) => one.readUInt32LE(4) === SHT_DYNSYM);
  const names = contentOf(headers[header.readUInt32LE(0x28)]);
  const symbols = contentOf(header);
  for (let at = 0; at < symbols.length; at += 24) {
    const from = symbols.readUInt32LE(at);
    const own = names.subarray(from, names.indexOf(0, from)).toString();
    if (own === name) return Number(symbols.readBigUInt64LE(at + 8));
  }
  throw new Error(`the vDSO has no ${name}`);
}

/** Does something to a process that stands still, none of whose threads is in a part of its code. */
function whileOutside(pid, from, to, work) {
  for (;;) {
    process.kill(pid, 'SIGSTOP');
    try {
      const places = placesOf(pid);
      if (places.every((place) => place < from || place >= to)) {
        work();
        return;
      }
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }
}

/** @returns {number[]} where the threads of a process are that was stopped, all of them */
function placesOf(pid) {
  const tasks = `/proc/${pid}/task`;
  for (;;) {
    const where = fs.readdirSync(tasks).map((task) => {
      const isStopped = /\) T/.test(fs.readFileSync(`${tasks}/${task}/stat`, 'utf8'));
      return isStopped ? fs.readFileSync(`${tasks}/${task}/syscall`, 'utf8') : 'running';
    });
    if (where.some((one) => one.startsWith('running'))) continue;
    return where.map((one) => Number(one.trim().split(' ').at(-1)));
  }
}

module.exports = { WallClock, lacksWallClock };
