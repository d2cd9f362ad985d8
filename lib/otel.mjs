// The CommonJS entry under ESM names.
import otel from './otel.js';

export const { instrument } = otel;
export default otel;
