/** What is used of a registry of `prom-client`. */
export interface PrometheusRegister {
  removeSingleMetric(name: string): void;
}

/** What is used of `prom-client`. */
export interface PrometheusClient {
  Counter: abstract new (configuration: never) => object;
  Histogram: abstract new (configuration: never) => object;
  register: PrometheusRegister;
}

export interface CollectOptions {
  /** The registry of the metrics; by default that of the client. */
  register?: PrometheusRegister | undefined;
}

/**
 * Collects `lock_wait_seconds`, `lock_hold_seconds` and `lock_lost_total` of the locks of this
 * thread. Their label `lock` is the `label` of a request.
 *
 * @returns a function that stops, and removes the metrics
 *
 * @example
 * import client from 'prom-client';
 * collectMetrics(client);
 */
export declare function collectMetrics(
  client: PrometheusClient,
  options?: CollectOptions,
): () => void;
