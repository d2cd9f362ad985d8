/* Declarations that the calls about one request share (requests.cc, host_requests.cc). */
#ifndef WEB_LOCKS_REQUESTS_H
#define WEB_LOCKS_REQUESTS_H

#include "calls.h"
#include "values.h"

/* A new request. Everything but the name is in the exchange. */
struct Wanted {
  uint32_t tag;
  wlk_mode mode;
  wlk_option option;
  CodeUnits name;

  /* Reserves the slot of the tag, too. Returns false if out of memory, or if the tag is in use. */
  bool Read(Environment *environment, napi_value name_value)
  {
    const Exchange *exchange = environment->exchange;
    tag = exchange->tag;
    mode = static_cast<wlk_mode>(exchange->mode);
    option = static_cast<wlk_option>(exchange->option);
    return name.Read(environment->env, name_value) == WLK_OK &&
           environment_reserve(environment, tag);
  }
};

/* The effect of a call on the slot of its request. */
enum Outcome : uint8_t {
  STAYS,   /* no change */
  GRANTED, /* JavaScript no longer waits for an event */
  AWAITED, /* JavaScript waits for an event */
  ENDED
};

inline void apply_outcome(Environment *environment, uint32_t tag, Outcome outcome)
{
  if (outcome == ENDED)
    environment_forget(environment, tag);
  else if (outcome != STAYS)
    environment_set_pending(environment, tag, outcome == AWAITED);
}

struct OfProcess {
  using Request = wlk_request;
  static const SlotKind kSlot = SLOT_CORE;
  static const int32_t kNotHeld = WLK_NOT_HELD;
  static constexpr auto Find = environment_find;
};
struct OfHost {
  using Request = HostRequest;
  static const SlotKind kSlot = SLOT_HOST;
  static const int32_t kNotHeld = WLH_NOT_HELD;
  static constexpr auto Find = environment_find_host;
};

/* Calls `act`, which returns the status, with the request whose tag is in the exchange, and then
 * hands the events over. Returns kNotHeld if no request has the tag. */
template <typename Scope, typename Act> int32_t on_request(Environment *environment, Act act)
{
  uint32_t tag = environment->exchange->tag;
  typename Scope::Request *request = Scope::Find(environment, tag);
  if (!request) return Scope::kNotHeld;
  Outcome outcome = STAYS;
  int32_t status = act(request, environment_events(environment), &outcome);
  apply_outcome(environment, tag, outcome);
  environment_publish(environment, Scope::kSlot);
  return status;
}

/* `value` is the label; the numbers are in the exchange. `extra` points into `label`, which must
 * outlive it. */
wlk_status read_extra(
    napi_env env, const Environment *environment, napi_value value, CodeUnits *label,
    wlk_extra *extra);

#endif
