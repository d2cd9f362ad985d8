/** Options of {@link startProfile}. */
export interface ProfileOptions {
  /** What `stop()` writes; by default `web-locks-profile-<pid>.json`, in the current folder. */
  file?: string;
  /**
   * Bytes for each thread, from 65,536 to 2^30; by default 2^23. The oldest requests are dropped.
   */
  size?: number;
  /**
   * Whether to record call sites, by default `true`; they cost more than the rest.
   */
  sites?: boolean;
}

/** What a profile has written. */
export interface ProfileSummary {
  file: string;
  /** How many requests are in the file. */
  requests: number;
  /** How many requests are not in it because there was no room. */
  dropped: number;
}

/** A profile that records this thread. It ends with the thread. */
export interface Profile {
  /**
   * Ends it, and writes the file. In a thread that takes part in the profile of the thread that
   * started it: ends the recording of this thread, and returns nothing.
   */
  stop(): ProfileSummary | undefined;
}

/**
 * Starts to record the requests of this thread, and of workers that it starts later, if they call
 * this too, or load this module by `--import`. If this thread has a profile already, returns that.
 */
export function startProfile(options?: ProfileOptions): Profile;
