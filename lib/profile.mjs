// The CommonJS entry under ESM names, so that both give the same instances.
import profile from './profile.js';

export const { startProfile } = profile;
export default profile;
