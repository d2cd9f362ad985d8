const lead = (_options = {}) => locks.request('leader', { steal: true }, () => {});
try {
// …
} catch (error) {
  if (!(error instanceof LockStolenError)) throw error;
  console.log('stolen:', error.lockName);
}
