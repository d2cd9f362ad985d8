// The declarations need neither the DOM library nor @types/node.

import { locks } from 'web-locks';

export const name: Promise<string> = locks.request('name', (lock) => lock.name);
