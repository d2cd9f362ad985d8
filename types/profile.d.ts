/** Of a profile of contention. */
export interface ProfileOptions {
  /** What `stop()` writes; by default `web-locks-profile-<pid>.json`, in the current folder. */
  file?: string;
  /**
   * Bytes for each thread, from 65,536 to 2^30; by default 2^23. The oldest requests are dropped.
   */
  size?: number;
  /**
   * Whether to find out where requests are made, by default `true`; it costs more than the rest.
   */
  sites?: boolean;
}

/** What a profile has written. */
export interface ProfileSummary {
  file: string;
  /** How many requests are in the file. */
  requests: number;
  /** How many were made, and are not in it: there was no room. */
  dropped: number;
}

/** A profile that goes on in this thread. It ends with the thread. */
export interface Profile {
  /**
   * Ends it, and writes the file. In a thread that takes part in the profile of the thread which
   * started it, ends the recording of this thread, and returns nothing.
   */
  stop(): ProfileSummary | undefined;
}

/**
 * Begins to record the requests of this thread, and of workers that it starts from now on, if they
 * call it too, or load this module by `--import`. While one goes on, it is returned.
 */
export function startProfile(options?: ProfileOptions): Profile;
