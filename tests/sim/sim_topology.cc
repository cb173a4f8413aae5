#include "sim/sim_topology.h"

namespace tarry::sim {
namespace {

const char* const kNames[kQueueCount] = {
    "work",  "split",     "plain",      "prio",          "short",  "churn",
    "bare",  "fleeting",  "dead.work",  "dead.a",        "dead.b", "again",
    "grave", "dead.prio", "dead.short", "dead.fleeting", "revived"};

void draw_retry(Random& r, QueueSpec& spec) {
  static const uint64_t kMins[] = {1, 20, 100, 500, 2000};
  spec.retry_min = kMins[r.below(5)];
  if (r.percent(70)) spec.multiplier = r.between(1, 3);
  if (r.one_in(3)) spec.retry_max = r.between(1, 4000);
  spec.limit = r.between(0, 5);
  if (r.one_in(4)) spec.jitter_percent = r.one_in(4) ? 100 : r.between(1, 99);
  if (r.one_in(5)) spec.max_age_ms = r.between(1, 4000);
  if (r.one_in(4)) spec.retry_type = static_cast<RetryOn>(r.between(1, 3));
}

}  // namespace

std::vector<QueueSpec> draw_queues(Random& r) {
  std::vector<QueueSpec> q(kQueueCount);
  auto dies_to = [&](size_t from, std::string exchange, std::string key, std::vector<size_t> to) {
    q[from].dead_letter_exchange = std::move(exchange);
    q[from].dead_letter_key = std::move(key);
    for (size_t t : to) q[t].parent = from;
    q[from].dead_letters_to = std::move(to);
  };
  for (size_t i = 0; i < q.size(); ++i) {
    q[i].name = kNames[i];
    q[i].published = i <= kFleeting;
  }
  draw_retry(r, q[kWork]);
  dies_to(kWork, "", "dead.work", {kDeadWork});
  if (r.one_in(3)) {
    q[kWork].at_least_once = true;
    q[kDeadWork].max_length = r.between(2, 8);
    q[kDeadWork].reject_publish = true;
  }
  draw_retry(r, q[kSplit]);
  dies_to(kSplit, "graves", "", {kDeadA, kDeadB});
  q[kPlain].quorum = true;
  if (r.one_in(2)) q[kPlain].limit = r.between(0, 6);
  dies_to(kPlain, "", "again", {kAgain});
  draw_retry(r, q[kPrio]);
  q[kPrio].max_priority = static_cast<uint8_t>(r.between(1, 4));
  dies_to(kPrio, "", "dead.prio", {kDeadPrio});
  if (r.one_in(2)) draw_retry(r, q[kShort]);
  q[kShort].max_length = r.between(3, 20);
  q[kShort].reject_publish = r.one_in(2);
  dies_to(kShort, "", "dead.short", {kDeadShort});
  draw_retry(r, q[kChurned]);
  q[kFleeting].transient = true;
  if (!r.one_in(3)) draw_retry(r, q[kFleeting]);
  dies_to(kFleeting, "", "dead.fleeting", {kDeadFleeting});
  draw_retry(r, q[kAgain]);
  dies_to(kAgain, "", "grave", {kGrave});
  q[kDeadA].redriven_to = kRevived;
  q[kRevived].parent = kDeadA;
  return q;
}

std::string describe_arguments(const FieldTable& arguments) {
  std::string text;
  for (const auto& [name, value] : arguments.entries) text += name + "=" + value.to_text() + " ";
  return text;
}

std::string declare_arguments(const QueueSpec& spec) {
  FieldTable arguments;
  auto number = [&](const char* name, uint64_t value) {
    arguments.set(name, FieldValue::int64(static_cast<int64_t>(value)));
  };
  if (spec.retry_min > 0) {
    static const char* const kTypes[] = {"", "failed", "returned", "all"};
    number("x-delayed-retry-min", spec.retry_min);
    if (spec.multiplier) number("x-delayed-retry-multiplier", *spec.multiplier);
    if (spec.retry_max) number("x-delayed-retry-max", *spec.retry_max);
    if (spec.jitter_percent > 0) number("x-delayed-retry-jitter", spec.jitter_percent);
    if (spec.max_age_ms) number("x-delayed-retry-max-age", *spec.max_age_ms);
    if (spec.retry_type != RetryOn::rejections) {
      arguments.set("x-delayed-retry-type",
                    FieldValue::text(kTypes[static_cast<size_t>(spec.retry_type)]));
    }
  }
  if (spec.limit) number("x-delivery-limit", *spec.limit);
  if (spec.quorum) arguments.set("x-queue-type", FieldValue::text("quorum"));
  if (spec.max_length > 0) number("x-max-length", spec.max_length);
  if (spec.reject_publish) arguments.set("x-overflow", FieldValue::text("reject-publish"));
  if (spec.max_priority > 0) number("x-max-priority", spec.max_priority);
  if (!spec.dead_letters_to.empty()) {
    arguments.set("x-dead-letter-exchange", FieldValue::text(spec.dead_letter_exchange));
    if (!spec.dead_letter_key.empty())
      arguments.set("x-dead-letter-routing-key", FieldValue::text(spec.dead_letter_key));
  }
  if (spec.at_least_once)
    arguments.set("x-dead-letter-strategy", FieldValue::text("at-least-once"));
  return arguments.encode();
}

}  // namespace tarry::sim
