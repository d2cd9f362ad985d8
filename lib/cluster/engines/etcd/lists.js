'use strict';

/** Splits a list into parts. @template Item @param {Item[]} all @param {number} most of a part */
function partsOf(all, most) {
  /** @type {Item[][]} */
  const parts = [];
  for (let i = 0; i < all.length; i += most) parts.push(all.slice(i, i + most));
  return parts;
}

/** @template Item, Key @param {Iterable<Item>} all @param {(item: Item) => Key} keyOf */
function groupBy(all, keyOf) {
  /** @type {Map<Key, Item[]>} */
  const groups = new Map();
  for (const item of all) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

module.exports = { groupBy, partsOf };
