/** What is used of `@opentelemetry/api`. */
export interface OpenTelemetryApi {
  trace: { getTracer(name: string): object };
  metrics: { getMeter(name: string): object };
  SpanStatusCode: { readonly ERROR: number };
}

/**
 * Makes a span for each request of a lock in this thread, from the request to the release, and the
 * metrics `lock.wait.duration`, `lock.hold.duration` and `lock.lost`.
 *
 * @returns a function that stops
 *
 * @example
 * import * as api from '@opentelemetry/api';
 * instrument(api);
 */
export declare function instrument(api: OpenTelemetryApi): () => void;
