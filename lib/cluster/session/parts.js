'use strict';

/** The parts of a session, which know each other, and what the session itself does for them. */

const { Connection } = require('./connection.js');
const { Grants } = require('./grants.js');
const { InFlightCalls } = require('./in-flight-calls.js');
const { KeepAlive } = require('./keep-alive.js');
const { Lease } = require('./lease.js');
const { Losses } = require('./losses.js');
const { Outage } = require('./outage.js');
const { Publications } = require('./publications.js');
const { Queries } = require('./queries.js');
const { Readiness } = require('./readiness.js');
const { Renewing } = require('./renewing.js');
const { RequestTable } = require('./request-table.js');
const { SendQueue } = require('./send-queue.js');
const { Sending } = require('./sending.js');
const { Status } = require('./status.js');
const { Timers } = require('./timers.js');

/** @import { Adapter, SessionInfo } from '../adapter.js' */
/** @import { Call } from './in-flight-calls.js' */
/** @import { Clock } from './clock.js' */
/** @import { Keeper } from './lease-keeper.js' */
/** @import { Item, Listener, Reason, Rules, SessionTimers, State } from './session.js' */
/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */

/**
 * @typedef {object} Reactions
 * @property {(work: () => void) => void} react does the work of an event, and what follows from it
 * @property {(due: Item[]) => void} handleDue
 * @property {(state: State, reason?: Reason, cause?: unknown) => void} handleChange
 * @property {(call: Call, error: unknown) => void} handleRejection
 * @property {() => void} handleDeath called if the server has ended the session
 * @property {(tracked: TrackedRequest) => void} end withdraws a request
 */

class SessionParts {
  requests = new RequestTable();
  readiness = new Readiness();

  /**
   * @param {{ adapter: Adapter, clock: Clock, info: SessionInfo, keeper: Keeper | undefined,
   *   rules: Rules, ttl: number }} options
   * @param {Listener} listener @param {Reactions} reactions
   */
  constructor({ adapter, clock, info, keeper, rules, ttl }, listener, reactions) {
    this.adapter = adapter;
    this.clock = clock;
    this.info = info;
    this.keeper = keeper;
    this.rules = rules;
    this.listener = listener;
    this.reactions = reactions;
    this.status = new Status(ttl, reactions.handleChange);
    this.outage = new Outage(clock, this.status);
    this.lease = new Lease(clock, rules.margin);
    /** @type {SessionTimers} */
    this.timers = new Timers(clock, reactions.handleDue);
    const { handleRejection, react } = reactions;
    this.calls = new InFlightCalls(clock, this.timers, react, handleRejection);
    this.sendQueue = new SendQueue(adapter.can.window ?? 1);
    const isWaiting = () => this.requests.unheld > 0 || this.readiness.isAwaited;
    this.keepAlive = new KeepAlive(clock, isWaiting, () => this.status.state === 'closed');
    this.publications = new Publications(this);
    this.grants = new Grants(this);
    this.renewing = new Renewing(this);
    this.connection = new Connection(this);
    this.sending = new Sending(this);
    this.losses = new Losses(this);
    this.queries = new Queries(this);
  }
}

module.exports = { SessionParts };
