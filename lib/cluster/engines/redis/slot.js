'use strict';

/**
 * The slots of a cluster, as its specification has them:
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
 */

const SLOTS = 16_384;

/** CRC-16/XMODEM. @param {Buffer} bytes */
function crc16(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let i = 0; i < 8; i++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc;
}

/** The slot of a key with a hash tag. @param {string} key */
const slotOf = (key) => crc16(Buffer.from(/** @type {any} */ (/\{(.+?)\}/.exec(key))[1])) % SLOTS;

module.exports = { slotOf };
