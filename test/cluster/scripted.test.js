'use strict';

/** Plays scripts for the session, with answers at the times and in the orders hardest for it. */

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { QUEUED, busy, granted } = require('../../lib/cluster/adapter.js');
const { isLocal } = require('../../lib/cluster/engines/errors.js');
const { Timers } = require('../../lib/cluster/session/timers.js');
const { Play, Scripted, renewal } = require('./scripted.js');
const { TTL } = require('./setup.js');
const { settle } = require('../world/world.js');

/** Titles and scripts (see `Play`). */
const SCRIPTS = {
  'one step is under way where the adapter does not say how many may be': [
    'request x; sent A: request 1; request y; no step is sent; A answers granted 1: granted x 1',
    'sent B: request 2',
  ],
  'a change during a renewal causes another renewal': [
    'wait 0.34 ttl; renewal asked; hint changed; no call is made; renewal; renewal asked',
  ],
  'grants that a renewal shows are reported in the order of their tokens': [
    'queue x; queue y; wait 0.34 ttl; renewal 1=3 2=2: granted y 2, granted x 3',
  ],
  'a connection that is cut during its first renewal is replaced': [
    'cut; wait 50; hello; renewal asked; cut; renewal; state suspect; connected; state open',
  ],
  'a request that was robbed before its grant arrived is made again': [
    'queue x; hint stolen 1 thief; sent B: request 2',
  ],
  'a thief of the same manager is granted after the loss of the stolen lock': [
    'hold x; steal y; sent B: steal 2; B answers granted 2: stolen x me, granted y 2',
  ],
  'a hint of a grant that was stolen by the same manager meanwhile is ignored': [
    'queue x; steal y; sent B: steal 2; B answers granted 2: granted y 2; hint granted 1 1',
    'end y; sent C: end 2; hint granted 1 1; hint stolen 1 me; C answers ended: ended y',
    'sent D: request 3; D answers granted 3: granted x 3',
  ],
  'a renewal that lists a lock that the same manager has stolen since does not grant it': [
    'queue x; wait 0.34 ttl; renewal asked; steal y; sent B: steal 2',
    'B answers granted 2: granted y 2',
    'renewal 1=1; hint stolen 1 me; sent C: request 3',
  ],
  'a theft that is reported before its grant follows the grant': [
    'request x; sent A: request 1; hint stolen 1 thief; cut; connected; sent A again',
    'A answers granted 4: granted x 4, stolen x thief',
  ],
  'a theft before the grant of a lost session does not count for the next session': [
    'request x; sent A: request 1; hint stolen 1 thief; lost; opened s2; ended s1',
    'sent B: request 2; B answers granted 4: granted x 4',
  ],
  'a theft of an earlier epoch does not count for a lock that is granted again': [
    'request x; sent A: request 1; hint stolen 1 thief; cut; connected life other; sent A again',
    'A answers granted 4: granted x 4',
  ],
  'a mark that the thief prevented is reported as a theft': [
    'hold x; end x keep 1000; sent B: end 1; hint stolen 1 thief',
    'B answers notMarked: stolen x thief, ended x',
  ],
  'a mark that a thief prevented is reported when the thief is known': [
    'hold x; end x keep 1000; sent B: end 1; B answers notMarked; hint stolen 1 thief: ' +
      'stolen x thief, ended x',
    'renewal asked; renewal; hold y; end y keep 1000; sent D: end 2; D answers notMarked',
    'renewal asked; renewal 2>thief: stolen y thief, ended y',
  ],
  'a mark is reported as lost in a failover if the next renewal knows no thief': [
    'hold x; wait 0.34 ttl; renewal asked; end x keep 1000; sent B: end 1; B answers notMarked',
    'renewal; renewal asked; renewal: lost x failover, ended x',
  ],
  'a lock whose end marks its name is stolen by its own session before the end': [
    'hold x; steal y; sent B: steal 2; end x keep 1000; B answers granted 2: granted y 2',
    'sent C: end 1; C answers notMarked: stolen x me, ended x',
  ],
  'a mark is reported as lost in a failover if the theft was of an earlier epoch': [
    'hold x; end x keep 1000; sent B: end 1; hint stolen 1 thief; cut; connected life other',
    'sent B again; B answers notMarked: lost x failover, ended x',
  ],
  'a step that was sent before an older server returned is sent without what has ended': [
    'request x; request y of b; sent A: request 1, request 2; hint granted 1 1: granted x 1; cut',
    'connected step none: lost x failover; sent B: request 2',
  ],
  'a theft that was granted before an older server returned is not sent again': [
    'steal x; request y of b; sent A: steal 1, request 2; hint granted 1 1: granted x 1; cut',
    'connected step none: lost x failover; sent B: request 2',
  ],
  'a request that was robbed or withdrawn before an older server returned is not sent again': [
    'request x; request y of b; sent A: request 1, request 2; hint granted 1 1: granted x 1',
    'hint stolen 1 thief: stolen x thief; end y; cut; connected step none; sent B: end 2',
  ],

  'a lease begins when its call is sent': [
    'lost; wait 1000; opened s2; ended s1; remaining 8000; wait 2334; renewal asked; wait 500',
    'renewal; remaining 8500',
  ],
  'a lease lasts as long as the server says': [
    'lost; opened s2 ttl 6000; ended s1; remaining 5400; wait 2000; renewal; remaining 5400',
  ],
  'a session whose lease is over when it is open is not used': [
    'lost; wait 9500; opened s2; ended s1; state opening; wait 200; opened s3; ended s2',
    'state open',
  ],
  'a session is used after a sixth of a ttl if the one before does not end': [
    'lost; opened s2; wait 1600; state opening; wait 67; state open',
  ],
  'a session that is lost is ended even if the one before did not end': [
    'lost; opened s2; wait 1667; hint changed; renewal; lost; opened s3; ended s1; ended s2',
    'state open',
  ],
  'a session that took long to open does not wait for the end of the one before': [
    'lost; wait 8500; opened s2; wait 1; state open; no renewal is asked',
  ],
  'a session is suspect if its connection was cut before it was open': [
    'lost; opened s2; cut; ended s1; state suspect; connected; state open',
  ],
  'the end of a quarantine is known from the opening and from each renewal': [
    'lost; opened s2 grantsIn 3000; ended s1; wait 1000; grantsIn 2000; wait 2400; grantsIn 0',
    'renewal grantsIn 700; grantsIn 700',
  ],
  'a new session reconnects soon, however often the last one tried to': [
    'cut; wait 9001; opened s2; ended s1; cut; connected; state open',
  ],
  'a session that is closed ends a session that was lost before its first renewal': [
    'lost; opened s2; ended s1; lost; close; ended s2; disposed: closed',
  ],
  'a session that is closed ends the last one if the next one could not be opened': [
    'lost; opening fails; close; ended s1; disposed: closed',
  ],
  'a session that is closed while the next one opens ends both': [
    'lost; close; wait 3000; opened s2; ended s1; ended s2; disposed: closed; refs 0',
  ],
  'a session that is closed does not wait for ends that are not answered': [
    'lost; close; wait 3000; opened s2; wait 3400; disposed: closed; refs 0',
  ],
  'an end under way is over only when the session that is closed has ended': [
    'hold x; end x; sent B: end 1; close; ended s1; disposed: ended x, closed; refs 0',
  ],
  'a session that is closed calls nothing after dispose': [
    'lost; close; wait 3400; disposed: closed; opened s2; no call is made',
  ],
  'each request that does not wait fails a ttl after it was made': [
    'cut; ifAvailable x; wait 1000; ifAvailable y of b; wait 8999; wait 1: failed x; wait 999',
    'wait 1: failed y',
  ],
  'a query is asked in the next session if it was held back when its session was lost': [
    'request x; sent A: request 1; query; A fails DEAD; opened s2; ended s1; sent B: request 2',
    'no query is asked; B answers queued; listed 9=0: found 9',
  ],
  'a query that waits for a quarter of a ttl overtakes requests, and lists them as waiting': [
    'request x of long; request y of long; request z of long; request w',
    'sent A: request 1, request 2; query; wait 2501; no query is asked; A answers queued, queued',
    'listed 1=0 2=0: found 1 2 3 4',
  ],
  'a query lists a request that it overtook once if the server lists it, too': [
    'request x of long; request y of long; request z of long; sent A: request 1, request 2; query',
    'wait 2501; A answers queued, queued; sent B: request 3; B answers queued',
    'listed 1=1 2=0 3=0: found 1=1 2 3',
  ],
  'a query lists the requests of its name that it overtook, where their priorities put them': [
    'request x of long; request y of long; request z of long; request w priority 9; request v',
    'request u priority 5; sent A: request 1, request 2; query a; wait 2501',
    'A answers queued, queued; listed 11=7 12=0,7 13=0 14=0,-1: found 11=7 4 12 6 13 5 14',
  ],
  'a query lists no request that was withdrawn, or that does not wait': [
    'hold x; request y of long; request z of long; request w of long; ifAvailable v; request u',
    'end x; end u; sent B: ended u, request 2, request 3; query; wait 2501',
    'B answers queued, queued; listed 1=1 other=4 2=0 3=0: found other=4 2 3 4',
  ],
  'a query for holders leaves out locks of this client that it does not hold here': [
    'hold x; request y of a and z of b; sent B: request 2, request 3; B answers granted 2, queued',
    'holders; listed 1=1 2=2 3=3: holders 1; holders; listed 2=2 3=3 other=9: holders 9; holders',
    'listed 2=2: holders unknown; holders; listed other=8: holders 8',
  ],
  'a query for holders sees a lock until the server has executed its release': [
    'hold x; end x; sent B: end 1; holders; listed 1=1: holders 1',
  ],
  'a request reports how far it has come': [
    'request x of a and y of b; steal z of c; request w of d; progress x: unsent',
    'sent A: request 1, request 2, steal 3, request 4; progress x: sent',
    'A answers granted 1, queued, busy, queued; progress x: grantedPartial; progress z: unsent',
    'progress w: waiting',
  ],
  'an outage is reported when a call is unanswered for a second': [
    'queue x; outage x: none; steal y of b; sent B: steal 2; wait 999; outage y: none; wait 1',
    'outage y: UNREACHABLE; B answers busy; outage x: none; outage y: GUARDED; cut',
    'outage y: UNREACHABLE',
  ],
  'an outage is reported when a query for holders is unanswered for a second': [
    'holders; wait 200: holders unknown; wait 799; outage: none; wait 1; outage: UNREACHABLE',
    'listed other=1; outage: none',
  ],
  'questions without answers end when the session is closed': [
    'hold x; query; holders; marked x',
    'close: lost x closed, query fails, marked false, holders unknown; ended s1; disposed: closed',
  ],
  'a question for a mark ends when its lock is lost': [
    'hold x; marked x; cut; wait 8999; wait 1: lost x unreachable, marked false',
  ],
  'a query keeps the process alive': ['refs 0; query; refs 1; listed 9=0: found 9; refs 0'],

  'R1: a grant in a repeated answer is compared with a renewal at once': [
    'request x; sent A: request 1; cut; connected; sent A again; A answers granted 1: granted x 1',
    'renewal: lost x failover',
  ],
  'R1: a theft whose step found the session dead is made again': [
    'steal x; sent A: steal 1; A fails DEAD; opened s2; ended s1; sent B: steal 2',
  ],
  'R1: a theft is unknown if its repeated step found the session dead': [
    'steal x; sent A: steal 1; cut; connected; sent A again; A fails DEAD: unknown x',
  ],
  'R1: a theft that the server has missed is made again in the next session': [
    'steal x; sent A: steal 1; cut; connected step none; sent B: steal 1; B fails DEAD; opened s2',
    'ended s1; sent C: steal 2',
  ],
  'R1: a theft is unknown if its session is lost without an answer, and one not sent is made': [
    'steal x; sent A: steal 1; steal y of b; lost: unknown x; opened s2; ended s1; sent B: steal 3',
  ],
  'R1: a step that the server has executed is not halved if its repetition is refused': [
    'steal x; request y of b; sent A: steal 1, request 2; cut; connected step A; sent A again',
    'A fails REFUSED; connected step A; sent A again',
  ],
  'R1: it is unknown whether a theft without an answer for a ttl was executed': [
    'steal x; sent A: steal 1; wait 3000; cut; connected; sent A again; wait 3000; cut; connected',
    'sent A again; wait 3000; cut; connected; sent A again; wait 1000: unknown x',
    'A answers granted 1; sent B: end 1',
  ],

  'R2: a group whose lock was stolen unannounced returns the others and is requested again': [
    'request x of a and y of b; sent A: request 1, request 2; A answers granted 1, queued',
    'hint stolen 2 thief; sent B: end 1, request 3, request 4; B answers ended, queued, queued',
  ],
  'R2: a group is held when the request that it lacks is withdrawn': [
    'request x of c and y of d; sent A: request 1, request 2; A answers queued, granted 4; end x',
    'sent B: end 1; B answers ended: granted y 4, ended x',
  ],
  'R2: a group of the next session is not divided': [
    'request x of a and y of b; sent A: request 1, request 2; A fails DEAD; opened s2; ended s1',
    'sent B: request 3, request 4; B answers queued, granted 4',
    'hint granted 3 5: granted x 5, granted y 4',
  ],

  'R3: a refused end is over, and is repeated if a renewal shows the lock': [
    'hold x; end x; sent B: end 1; B fails REFUSED: ended x; wait 0.34 ttl; renewal 1=1',
    'sent C: end 1',
  ],
  'R3: a refused end that was to mark the name is a loss': [
    'hold x; end x keep 1000; sent B: end 1; B fails REFUSED: lost x unreachable, ended x',
  ],
  'R3: a group is held when the end of the request that it lacks is refused': [
    'request x of a and y of b; sent A: request 1, request 2; A answers queued, granted 4; end x',
    'sent B: end 1; B fails REFUSED: granted y 4, ended x',
  ],

  'R3: a request whose step fails for good fails alone': [
    'request x; sent A: request 1; A fails FATAL: failed x; request y; sent B: request 2',
  ],
  'R3: a group that the server misses for a ttl fails': [
    'request x of b and y of c; sent A: request 1, request 2; wait 3000; cut; connected step none',
    'sent B: request 1, request 2; wait 3000; cut; connected step none',
    'sent C: request 1, request 2; wait 3000; cut; connected step none',
    'sent D: request 1, request 2; wait 3000; cut; connected step none',
    'sent E: request 1, request 2; wait 3000; cut; connected step none: failed x, failed y',
  ],
  'R3: a step with an answer that makes no sense is unanswered': [
    'request x; sent A: request 1; A answers nonsense; state suspect; connected; sent A again',
  ],

  'R4: a busy request is repeated less and less often, after delays of its own': [
    'steal x; sent A: steal 1; A answers busy; wait 19; no step is sent; wait 1; sent B: steal 1',
    'B answers busy; wait 39; no step is sent; wait 1; sent C: steal 1; C answers busy; wait 79',
    'no step is sent; wait 1; sent D: steal 1; D answers busy; wait 159; no step is sent; wait 1',
    'sent E: steal 1; E answers busy; wait 319; no step is sent; wait 1; sent F: steal 1',
    'F answers busy; steal y of b; sent G: steal 2; G answers busy; wait 19; no step is sent',
    'wait 1; sent H: steal 2; H answers granted 2: granted y 2; wait 479; no step is sent; wait 1',
    'sent I: steal 1; I answers busy; wait 499; no step is sent; wait 1; sent J: steal 1',
  ],
  'R2: the rest of a group is held if one of its requests is refused': [
    'request x of a and y of b; sent A: request 1, request 2',
    'A answers granted 1, full: denied y queueFull, granted x 1',
  ],
  'R4: a withdrawn request is not repeated after BUSY, but its end is': [
    'hold x; steal y; end x; sent B: steal 2, end 1; B answers busy, busy; end y; sent C: end 2',
    'C answers ended: ended y; wait 0.02 ttl; sent D: end 1; D answers ended: ended x',
  ],

  'a lock that nobody here knows is released before anything else is requested': [
    'cut; request x; connected 7=1; sent A: end 7, request 1; hint changed; renewal 7=1',
    'no call is made',
  ],
  'a release that is executed during a renewal is not repeated': [
    'hold x; end x; sent B: end 1; hint changed; renewal asked; B answers ended: ended x',
    'renewal 1=1; no step is sent',
  ],
  'a release without an answer resolves when the lease ends': [
    'hold x; end x; sent B: end 1; cut; wait 8999; wait 1: ended x',
  ],
  'a lock is lost at the end of its lease, even if other clocks stand still or are set back': [
    'hold x; cut; frozen; wall -90000; wait 8999; state suspect; wait 1: lost x unreachable',
    'state opening',
  ],
  'only the last of the texts that wait is sent, and its outcome is that of all': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2; publish x 3; hint changed; renewal 1=1',
    'no step is sent; B answers published: published 1; sent C: publish 1 3',
    'C answers published: published 2, published 3',
  ],
  'a renewal says why a text was not published: the lock is stolen': [
    'hold x; publish x 1; sent B: publish 1 1; B answers notHeld; publish x 2; renewal asked',
    'renewal 1>thief: stolen x thief, unpublished 1, unpublished 2; no call is made',
  ],
  'a renewal says why a text was not published: the lock is lost': [
    'hold x; publish x 1; sent B: publish 1 1; B answers notHeld; publish x 2; renewal asked',
    'renewal: lost x failover, unpublished 1, unpublished 2; no call is made',
  ],
  'a text that was not published is sent again if the lock is held after all': [
    'hold x; publish x 1; sent B: publish 1 1; B answers notHeld; publish x 2; renewal asked',
    'renewal 1=1; sent C: publish 1 2; hint changed; renewal 1=1; no step is sent',
    'C answers published: published 1, published 2; no step is sent',
  ],
  'the end of its session leaves the texts of a lock unpublished': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2',
    'B fails DEAD: lost x failover, unpublished 1, unpublished 2',
  ],
  'the end of its lease leaves the texts of a lock unpublished': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2; wait 8999',
    'wait 1: lost x unreachable, unpublished 1, unpublished 2',
  ],
  'a theft leaves the texts of a lock unpublished': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2',
    'hint stolen 1 thief: stolen x thief, unpublished 1, unpublished 2; B answers notHeld',
  ],
  'the end of its bucket leaves the texts of a lock unpublished': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2',
    'close: lost x closed, unpublished 1, unpublished 2; ended s1; disposed: closed',
  ],
  'a text under way at the release of its lock has its outcome, a later one none': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2; end x',
    'B answers published: published 1; sent C: end 1; C answers ended: ended x, unpublished 2',
  ],
  'a text is rejected if the server refuses it or its step, and the next one is sent': [
    'hold x; publish x 1; sent B: publish 1 1; publish x 2; B answers failed: refused 1',
    'sent C: publish 1 2; publish x 3; C fails REFUSED: refused 2; sent D: publish 1 3',
    'D answers published: published 3',
  ],
  'a text that a new epoch may lack is published again, refused or not': [
    'hold x; publish x 1; sent B: publish 1 1; B answers published: published 1; cut',
    'connected 1=1 life second; sent C: publish 1 1; C answers published; hint changed',
    'renewal 1=1 life second; no call is made; cut',
    'connected 1=1 life third; sent D: publish 1 1; D answers failed; no call is made',
  ],
  'a text keeps the process alive until it is answered': [
    'hold x; refs 0; publish x 1; refs 1; sent B: publish 1 1',
    'B answers published: published 1; refs 0',
  ],

  'a misused call closes the session for good': [
    'hold x; ready: ready; hint changed; renewing fails MISUSE: lost x unreachable; state closed',
    'ready: ready rejects MISUSE; ended s1; disposed; wait 60000; no call is made',
  ],
  'a refusal costs no lock and no place in a queue before the lease ends': [
    'request x; request y of b; sent A: request 1, request 2',
    'A answers granted 1, queued: granted x 1; cut; wait 50; connecting fails FATAL; state refused',
    'ready; wait 50; connecting fails FATAL: ready rejects FATAL; connected 1=1 2=0; state open',
    'cut; wait 50; connecting fails FATAL; wait 50; connecting fails FATAL',
  ],
  'a refusal fails requests without an answer': [
    'request x; sent A: request 1; cut; wait 50; connecting fails FATAL: failed x',
  ],
  'a refusal costs locks and requests when the lease ends': [
    'request x; request y of b; sent A: request 1, request 2',
    'A answers granted 1, queued: granted x 1; cut; wait 50; connecting fails FATAL; wait 50',
    'connecting fails FATAL; wait 100; connecting fails FATAL; wait 200; connecting fails FATAL',
    'wait 400; connecting fails FATAL; wait 800; connecting fails FATAL; wait 1600',
    'connecting fails FATAL; wait 2000; connecting fails FATAL; wait 2000; connecting fails FATAL',
    'wait 1799; state refused; wait 1: lost x unreachable, failed y; state refused; opened s2',
    'ended s1; state open',
  ],
  'a session that is closed loses its locks, and fails requests that wait': [
    'request x; request y of b; sent A: request 1, request 2',
    'A answers granted 1, queued: granted x 1; close: lost x closed, failed y; ended s1',
    'disposed: closed; refs 0',
  ],
  'a server that cannot be reached after a refusal is waited for again': [
    'lost; opening fails FATAL; state refused; wait 100; opening fails; state opening; request x',
    'wait 4000; opened s2; ended s1; sent A: request 1',
  ],
  'the pauses after refusals grow to a minute, unless ready is read': [
    'lost; opening fails FATAL; wait 49; no open is asked; wait 1; opening fails FATAL; wait 99',
    'no open is asked; wait 1; opening fails FATAL; wait 200; opening fails FATAL; wait 400',
    'opening fails FATAL; wait 800; opening fails FATAL; wait 1600; opening fails FATAL; wait 3200',
    'opening fails FATAL; wait 6400: unopened FATAL; opening fails FATAL; wait 12800',
    'opening fails FATAL; wait 25600; opening fails FATAL; wait 51200; opening fails FATAL',
    'wait 59999; no open is asked; wait 1; opening fails FATAL; ready; wait 100',
    'opening fails FATAL: ready rejects FATAL',
  ],
  'a pause follows a session that is lost before its first renewal': [
    'lost; opened s2; ended s1; lost; no call is made; wait 200; opened s3; ended s2',
  ],
  'the expiry of another session causes a check, and a pause before the next one': [
    'queue x; wait 0.1 ttl; sweep; renewal 1=0; wait 0.1 ttl; sweep; renewal 1=0 nextExpiryIn 700',
    'wait 701; sweep; renewal 1=0 nextExpiryIn 0; wait 499; no sweep is asked; wait 1; sweep',
  ],
  'a session for which nothing waits checks for expired leases once': [
    'wait 0.34 ttl; renewal nextExpiryIn 0; wait 1; sweep; renewal nextExpiryIn 0; wait 0.34 ttl',
    'renewal nextExpiryIn 0; wait 0.3 ttl; no call is made',
  ],
  'a quarantine that ends between a check and its renewal causes another check': [
    'queue x; wait 0.1 ttl; sweep; renewal 1=0 grantsIn 600; wait 601; sweep; renewal 1=0',
    'wait 0.1 ttl; sweep',
  ],
  'a quarantine that was reported before a request waited causes a check at its end': [
    'wait 0.34 ttl; renewal grantsIn 2000; wait 1; sweep; renewal grantsIn 2000; queue x',
    'wait 0.1 ttl; sweep; renewal 1=0; wait 0.1 ttl; sweep',
  ],
  'each session checks once more when it learns that there is no quarantine': [
    'queue x; wait 0.1 ttl; sweep; renewal 1=0; wait 0.1 ttl; sweep; renewal 1=0; wait 0.1 ttl',
    'no call is made; lost; opened s2; ended s1; sent B: request 2; B answers queued; wait 0.1 ttl',
    'sweep; renewal 2=0; wait 0.1 ttl; sweep; renewal 2=0; wait 0.1 ttl; no call is made',
  ],
};

const WINDOW = {
  'as many steps are under way as the window has': [
    'request x; sent A: request 1; request y; sent B: request 2; request z; sent C: request 3',
    'request w; no step is sent; A answers granted 1: granted x 1; sent D: request 4',
  ],
  'answers are applied in the order of their steps': [
    'request x; sent A: request 1; request y; sent B: request 2; request z; sent C: request 3',
    'C answers granted 3; B answers granted 2',
    'A answers granted 1: granted x 1, granted y 2, granted z 3',
  ],
  'a grant by a later step is reported before the answer to the request, and once': [
    'hold x; request y; sent B: request 2; end x; sent C: end 1; hint granted 2 2: granted y 2',
    'B answers queued; C answers ended: ended x; wait 0.34 ttl; renewal 2=2; no step is sent',
  ],
  'a theft by a later step is reported after the grant of an earlier one': [
    'steal x; sent A: steal 1; steal y; sent B: steal 2; hint stolen 1 me; B answers granted 2',
    'A answers granted 1: granted x 1, stolen x me, granted y 2',
  ],
  'a renewal changes no request whose step is under way': [
    'request x; sent A: request 1; request y of b; sent B: request 2; hint changed; renewal asked',
    'A answers granted 1: granted x 1; renewal; B answers granted 2: granted y 2; no step is sent',
  ],
  'a query comes after the steps that are under way, and before later ones': [
    'request x; sent A: request 1; request y; sent B: request 2; query; request z',
    'A answers granted 1: granted x 1; no query is asked; no step is sent',
    'B answers granted 2: granted y 2; listed 1=0: found 1; sent C: request 3',
  ],
  'a session that is closed fails requests under way, and ignores their answers': [
    'request x; sent A: request 1; request y; sent B: request 2; close: failed x, failed y',
    'A answers granted 1; B answers granted 2; ended s1; disposed: closed',
  ],
  'steps under way have their time limits one after the other': [
    'request x; sent A: request 1; request y; sent B: request 2; wait 2500',
    'A answers granted 1: granted x 1; wait 900; renewal 1=1; wait 1600; state open; wait 1000',
    'state suspect',
  ],
  'R3: a step that the server misses has time of its own': [
    'request x; sent A: request 1; request y; sent B: request 2; wait 2500; cut',
    'connected step none; sent C: request 1; sent D: request 2; wait 2500; cut',
    'connected step none; sent E: request 1; sent F: request 2; wait 2500; cut',
    'connected step none; sent G: request 1; sent H: request 2; wait 2500; cut',
    'connected step none; sent I: request 1; sent J: request 2; wait 2500; cut; connected step I',
    'sent I again; sent K: request 2',
  ],
  'R1: steps without answers are sent again as they were, in their order': [
    'request x; sent A: request 1; request y; sent B: request 2; request z; sent C: request 3',
    'A answers granted 1: granted x 1; cut; connected 1=1; sent B again; sent C again',
    'B answers granted 2: granted y 2; C answers granted 3: granted z 3',
  ],
  'R1: an answer that came before that of an earlier step does not count after a cut': [
    'request x; sent A: request 1; request y; sent B: request 2; B answers granted 2; cut',
    'connected; sent A again; sent B again; A answers granted 1: granted x 1',
    'B answers granted 2: granted y 2',
  ],
  'R1: no theft that was under way is repeated in the next session': [
    'request x; sent A: request 1; steal y; sent B: steal 2; request z; sent C: request 3; steal w',
    'C fails DEAD: unknown y; opened s2; ended s1; sent D: request 5, request 6, steal 7',
  ],
  'R1: steps behind one that found the session dead were not executed': [
    'request x; sent A: request 1; steal y; sent B: steal 2; A fails DEAD; opened s2; ended s1',
    'sent C: request 3, steal 4',
  ],
  'R1: numbers of steps that were taken back count as far as the server remembers': [
    'request x; sent A: request 1; request y; sent B: request 2; request z; sent C: request 3',
    'B fails REFUSED: failed y; C fails EARLY; no step is sent; A answers granted 1: granted x 1',
    'sent D: request 3',
  ],
  'R3: the steps behind a refused one are sent again in other steps': [
    'request x; sent A: request 1; request y of b and z of c; sent B: request 2, request 3',
    'A answers granted 1: granted x 1; request w of d; sent C: request 4',
    'B fails REFUSED: failed y, failed z; C fails EARLY; sent D: request 4',
  ],
  'R3: a refused step is halved, and nothing behind it fails': [
    'request x; request y; sent A: request 1, request 2; A fails REFUSED; sent B: request 1',
    'sent C: request 2; B answers granted 1: granted x 1; request z; sent D: request 3',
    'C fails REFUSED: failed y; D fails EARLY; sent E: request 3; E answers granted 3: granted z 3',
  ],
  'R3: names of limited length share a step': [
    'request x of long; request y of long; request z of long; sent A: request 1, request 2',
    'sent B: request 3',
  ],
  'R3: the first step that the server has missed is halved': [
    'steal x; sent A: steal 1; request y; request z; sent B: request 2, request 3; cut',
    'connected step A; sent A again; sent C: request 2; A answers granted 1: granted x 1',
    'sent D: request 3; C answers granted 2: granted y 2; D answers granted 3: granted z 3',
  ],
  'R3: steps are longer again after one that was halved': [
    'request x; request y; sent A: request 1, request 2; request z; sent B: request 3; cut',
    'connected step none; sent C: request 1; sent D: request 2; sent E: request 3; request w',
    'request v; no step is sent; C answers granted 1: granted x 1; sent F: request 4, request 5',
  ],
  'R4: a busy request delays no step behind it': [
    'steal x; sent A: steal 1; request y of b; sent B: request 2; A answers busy',
    'B answers granted 1: granted y 1; wait 0.02 ttl; sent C: steal 1',
  ],
  'a lease does not become longer if the wall clock is set back while the machine sleeps': [
    'hold x; wall -5000; sleep 7500; remaining 1500',
  ],
};

/** The session has not been open. */
const NEW = {
  'ready keeps the process alive until the session is open': [
    'refs 1; ready; opened s1: ready; refs 0; ready: ready',
  ],
  'ready rejects after a ttl, and waits for another ttl when it is read again': [
    'ready; wait 1; opening fails; wait 9998; wait 1: unopened away, ready rejects away; refs 0',
    'wait 5000; ready; refs 1; wait 9999; wait 1: ready rejects the lock server does not answer.',
    'ready; wait 100; opened s1: ready',
  ],
  'an outage is reported when the first connection takes a second': [
    'wait 999; outage: none; wait 1; outage: UNREACHABLE',
  ],
  'ready waits while the session is suspect': [
    'opened s1; cut; ready; wait 1; state suspect; connected: ready',
  ],
  'ready of a closed session has the cause of the outage': [
    'ready; opening fails; wait 10000: unopened away, ready rejects away; close; wait 3400',
    'disposed: closed; ready: ready rejects away',
  ],
  'an outage of a ttl is reported once': [
    'opening fails; wait 9999; wait 1: unopened away; wait 25000; opened s1; lost; wait 2000',
    'opening fails; wait 7999; wait 1: unopened away; wait 30000',
  ],
};

/** The machine sleeps, and its monotonic clock with it; rules.test.js tests a continuous clock. */
const ASLEEP = {
  'a lock is lost when the machine wakes up after its lease': [
    'hold x; sleep 20000; remaining 0: lost x expired',
  ],
  'a lock is lost at the end of its lease if the machine wakes up before': [
    'hold x; sleep 7500; remaining 1500; hint changed; wait 1499; wait 1: lost x expired',
  ],
};

const LONG_TTL = 3_600_000;

const LONG = {
  'a silent connection is noticed while a request is under way': [
    'wait 1200001; renewal; wait 100; request x; sent A: request 1; wait 10000; state suspect',
  ],
  'a silent connection is noticed while a request waits': [
    'wait 1200001; renewal; wait 100; queue x; wait 5000; renewal 1=0; wait 10000; state suspect',
  ],
  'a session renews three times in a lease if nothing waits': [
    'hold x; wait 5000; renewal 1=1; wait 1199990; no renew is asked; wait 11; renewal 1=1',
  ],
};

/** The engine ends leases by itself, and pushes the grants that this makes possible. */
const PUSHED = {
  'nothing is checked for a waiting request once there is no quarantine': [
    'wait 0.34 ttl; renewal; wait 1; sweep; renewal; queue x; wait 0.25 ttl; no call is made',
  ],
  'a quarantine that began and ended while the connection was cut is noticed': [
    'wait 0.34 ttl; renewal; wait 1; sweep; renewal; queue x; cut; connected 1=0; wait 0.1 ttl',
    'sweep; renewal 1=1: granted x 1',
  ],
  'the end of a quarantine is looked for': [
    'queue x; wait 0.1 ttl; sweep; renewal 1=0 grantsIn 600; wait 601; sweep',
    'renewal 1=1: granted x 1',
  ],
};

function play(scripts, { can = {}, clock = {}, isNew = false, ttl = TTL } = {}) {
  for (const [title, statements] of Object.entries(scripts)) {
    test(title, async () => {
      const stage = new Scripted({}, can, clock);
      if (isNew) stage.session.start();
      else await stage.open({ ttl });
      await new Play(stage, ttl).run(statements.join('; '));
    });
  }
}

play(SCRIPTS);
describe('of a session that has not been open', () => play(NEW, { isNew: true }));
describe('with a window of three', () => play(WINDOW, { can: { window: 3 } }));
describe('without a continuous clock', () => play(ASLEEP, { clock: { isContinuous: false } }));
describe('with a long ttl', () => play(LONG, { ttl: LONG_TTL }));
describe('of an engine that ends leases', () => play(PUSHED, { can: { endsLeases: true } }));

/** Makes a request, and answers it. */
async function asked(stage, owner, answer, more = {}) {
  const place = stage.ask({ owner, ...more });
  await stage.answer('step', [answer]);
  return place;
}

/** Answers renewals and checks, and changes nothing. */
const quiet = { renew: () => renewal(), sweep: () => {} };

test('a lease whose end a look at the clock finds is lost in a microtask', async () => {
  const stage = await new Scripted().open();
  await asked(stage, 'held', granted(1n));
  stage.adapter.events.down(new Error('cut'));
  await settle();
  stage.news();
  stage.machine.setWallBy(TTL);
  assert.equal(stage.session.remaining(), 0);
  await settle();
  assert.deepEqual(stage.told.at(-1), ['settled']);
  assert.deepEqual(stage.news(), [['lost', 'held', 'unreachable']]);
});

describe('steps', () => {
  test('have at most 100 operations, or one group, in the next session as well', async () => {
    const stage = await new Scripted().open();
    for (let i = 0; i < 99; i++) stage.ask({ owner: i });
    for (const size of [2, 150])
      stage.ask(...Array.from({ length: size }, (_, i) => ({ owner: i, group: size })));
    await (await stage.step()).fail('DEAD');
    await stage.reopen();
    for (const size of [99, 2, 150]) {
      const { answer, ops } = await stage.step();
      assert.equal(ops.length, size);
      await answer(...ops.map(() => QUEUED));
    }
  });

  test('are sent after a tick if none is under way, otherwise after a turn', async () => {
    const stage = await new Scripted({}, { window: 4 }).open();
    const waits = [];
    for (const wait of ['nextTick', 'setImmediate']) {
      stage.machine[wait] = (call) => {
        waits.push(wait);
        Promise.resolve().then(call);
      };
    }
    for (const owner of ['one', 'two']) {
      stage.ask({ owner });
      await settle();
    }
    assert.deepEqual(waits, ['nextTick', 'setImmediate']);
  });
});

test('R3: errors of a call that was not sent are local', () => {
  for (const [error, expected] of [
    [Object.assign(new Error('too long'), { code: 'ERR_STRING_TOO_LONG' }), true],
    [new RangeError('Maximum call stack size exceeded'), true],
    [Object.assign(new Error('no such file'), { code: 'ENOENT', syscall: 'open' }), true],
    [Object.assign(new Error('cut'), { code: 'ECONNRESET', syscall: 'read' }), false],
  ]) {
    assert.equal(isLocal(error), expected, error.message);
  }
});

test('R4: a theft that is busy for a ttl fails with the reason', async () => {
  const step = (ops) => ops.map(() => busy(new Error('a transaction guards it')));
  const stage = await new Scripted({ ...quiet, step }).open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  for (let i = 0; i < 12; i++) await stage.world.advance(TTL / 10);
  const { message } = stage.errors[0];
  assert.match(message, /did not execute the request within \d+ ms: a transaction guards it/);
});

test('a time that is longer than any timer is divided', () => {
  let now = 0;
  const set = [];
  const clock = {
    monotonic: () => now,
    setTimeout: (fire, milliseconds) => set.push({ fire, milliseconds }),
    clearTimeout: () => {},
    unref: () => {},
  };
  const due = [];
  const timers = new Timers(clock, (items) => due.push(...items));
  timers.set('far', 2 ** 32);
  while (due.length === 0) {
    const { fire, milliseconds } = set.at(-1);
    assert.ok(milliseconds < 2 ** 31, `${milliseconds} ms`);
    now += milliseconds;
    fire();
  }
  assert.equal(now, 2 ** 32);
});
