'use strict';

// Details say who holds each lock, and who waits for whom.

const { subscribe } = require('node:diagnostics_channel');
const { locks } = require('web-locks');

subscribe('locks.request.end', (message) => {
  const { name, label } = /** @type {{ name: string, label: string }} */ (message);
  console.log(`ended: ${name}, ${label}`);
});

async function main() {
  const handle = await locks.acquire('report', { label: 'nightly run' });
  const waiting = locks.request('report', { label: 'on demand' }, () => {});
  const { held, pending } = await locks.query({ details: true });
  console.log(`held for: ${held[0].label}`);
  console.log(`waits: ${pending[0].label}, blocked by: ${pending[0].blockedBy[0].label}`);
  handle.release();
  await waiting;
}

main();
