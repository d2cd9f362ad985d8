export * from './profile.js';
import * as profile from './profile.js';
export default profile;
