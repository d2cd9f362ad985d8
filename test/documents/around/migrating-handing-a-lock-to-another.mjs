/** @type {Map<string, string>} */
const claims = new Map();
/** @type {{ order: string, claim: string }[]} */
const messages = [];
const send = async (message = { order: '', claim: '' }) => messages.push(message);
const pay = async () => console.log('paid');
// …
await first();
await first();
for (const message of messages) await second(message);
