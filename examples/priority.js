'use strict';

// Urgent work overtakes waiting requests; work with a low priority lets all others pass.

const { Mutex } = require('web-locks');

async function main() {
  const printer = new Mutex('printer');
  const release = await printer.acquire();
  /**
   * @param {string} order
   * @param {number} [priority]
   */
  const print = (order, priority) =>
    printer.runExclusive(() => console.log('prints', order), { priority });
  const printing = [
    print('a newsletter', -1),
    print('a letter'),
    print('another letter'),
    print('a ticket', 10),
  ];
  release();
  await Promise.all(printing);
}

main();
