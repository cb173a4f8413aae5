#include "broker/redrives.h"

#include <shared_mutex>

#include "broker/core.h"
#include "broker/definition_codec.h"
#include "broker/success.h"
#include "broker/wording.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr size_t kEndedMax = 100;  // that are still shown
constexpr const char* kRunning = "running";

const char* state_name(RedriveEnd end) {
  switch (end) {
    case RedriveEnd::completed:
      return "completed";
    case RedriveEnd::stopped:
      return "stopped";
    case RedriveEnd::cancelled:
      return "cancelled";
  }
  return "";
}

std::string stored_text(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value && value->text() ? *value->text() : std::string();
}

uint64_t stored_number(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value ? static_cast<uint64_t>(std::max<int64_t>(value->integer().value_or(0), 0)) : 0;
}

FieldTable to_table(const RedriveInfo& info, QueueId queue,
                    const std::optional<RedrivePlan>& plan) {
  FieldTable t;
  const auto number = [&](const char* name, uint64_t value) {
    t.set(name, FieldValue::int64(static_cast<int64_t>(value)));
  };
  const RedriveRequest& request = info.request;
  t.set("vhost", FieldValue::text(info.vhost));
  t.set("queue", FieldValue::text(info.queue));
  number("queue_id", queue.value);
  t.set("target", FieldValue::text(request.target));
  if (request.limit) number("limit", *request.limit);
  if (request.rate) t.set("rate", FieldValue{'d', *request.rate});
  t.set("reason_filter", FieldValue::text(request.filter.reason));
  t.set("queue_filter", FieldValue::text(request.filter.queue));
  t.set("header_filter", FieldValue::text(request.filter.header));
  if (request.filter.value) t.set("value_filter", FieldValue::text(*request.filter.value));
  t.set("reset_budget", FieldValue::boolean(request.reset_budget));
  if (plan) t.set("plan", FieldValue::text(plan->text()));
  t.set("state", FieldValue::text(info.state));
  t.set("reason", FieldValue::text(info.reason));
  number("started_ms", info.started_ms);
  number("finished_ms", info.finished_ms);
  number("matched", info.matched);
  number("moved", info.moved);
  number("skipped", info.skipped);
  number("failed", info.failed);
  return t;
}

RedriveOrder order_of(uint64_t id, const RedriveRequest& request) {
  RedriveOrder order;
  order.id = id;
  order.target = request.target;
  order.limit = request.limit;
  order.rate = request.rate;
  order.filter = request.filter;
  order.reset_budget = request.reset_budget;
  order.dry_run = request.dry_run;
  return order;
}

}  // namespace

RedriveInfo Redrives::shown(const Entry& entry) {
  RedriveInfo info = entry.info;
  if (info.state != kRunning) return info;
  const auto read = [](const std::atomic<uint64_t>& figure) {
    return figure.load(std::memory_order_relaxed);
  };
  info.matched = entry.plan ? entry.plan->matched : read(entry.progress->matched);
  info.moved = read(entry.progress->moved);
  info.skipped = read(entry.progress->skipped);
  info.failed = read(entry.progress->failed);
  return info;
}

void Redrives::store(const Entry& entry, Task then) {
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::redrive_key(entry.info.id),
                          definition::redrive_value(to_table(entry.info, entry.queue, entry.plan)));
  std::unique_lock lock(core_.registry.mutex);
  core_.commit(lock, std::move(batch), std::move(then));
}

// -- The start

Result<void, std::string> Redrives::restore(const std::string& id_text, const FieldTable& table) {
  Entry entry;
  RedriveInfo& info = entry.info;
  if (id_text.empty() || id_text.find_first_not_of("0123456789") != std::string::npos ||
      id_text.size() > 18) {
    return "the redrive '" + id_text + "' has no number for a name";
  }
  info.id = std::stoull(id_text);
  info.vhost = stored_text(table, "vhost");
  info.queue = stored_text(table, "queue");
  entry.queue = QueueId{stored_number(table, "queue_id")};
  info.request.target = stored_text(table, "target");
  if (table.find("limit")) info.request.limit = stored_number(table, "limit");
  if (const FieldValue* rate = table.find("rate"); rate && rate->type == 'd')
    info.request.rate = std::get<double>(rate->value);
  info.request.filter = {stored_text(table, "reason_filter"), stored_text(table, "queue_filter"),
                         stored_text(table, "header_filter"), std::nullopt};
  if (table.find("value_filter")) info.request.filter.value = stored_text(table, "value_filter");
  if (const FieldValue* reset = table.find("reset_budget"))
    info.request.reset_budget = reset->boolean().value_or(true);
  if (table.find("plan")) {
    entry.plan = RedrivePlan::parse(stored_text(table, "plan"));
    if (!entry.plan) return "the redrive " + id_text + " has a plan that cannot be read";
  }
  info.state = stored_text(table, "state");
  info.reason = stored_text(table, "reason");
  info.started_ms = stored_number(table, "started_ms");
  info.finished_ms = stored_number(table, "finished_ms");
  info.matched = stored_number(table, "matched");
  info.moved = stored_number(table, "moved");
  info.skipped = stored_number(table, "skipped");
  info.failed = stored_number(table, "failed");
  std::lock_guard lock(mutex_);
  last_id_ = std::max(last_id_, info.id);
  entries_[info.id] = std::move(entry);
  return {};
}

void Redrives::resume() {
  std::vector<std::pair<uint64_t, std::pair<std::string, QueueId>>> running;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (entry.info.state == kRunning) running.push_back({id, {entry.info.vhost, entry.queue}});
    }
  }
  for (const auto& [id, where] : running) {
    std::shared_ptr<QueueHandle> handle;
    {
      std::shared_lock lock(core_.registry.mutex);
      auto vhost = core_.registry.find_vhost(where.first);
      if (vhost) {
        auto it = vhost->by_id.find(where.second);
        if (it != vhost->by_id.end()) handle = it->second;
      }
    }
    if (handle)
      run(id, std::move(handle));
    else
      ended(id, state_name(RedriveEnd::stopped), "the queue was deleted");
  }
}

// -- Running

void Redrives::start(std::shared_ptr<QueueHandle> queue, RedriveRequest request,
                     Answer<RedriveStarted> answer) {
  if (request.dry_run) return count(std::move(queue), std::move(request), std::move(answer));
  Entry entry;
  entry.info.vhost = queue->identity.vhost;
  entry.info.queue = queue->identity.name;
  entry.info.request = std::move(request);
  entry.info.state = kRunning;
  entry.info.started_ms = core_.clock.system_now().floor_ms();
  entry.queue = queue->id;
  entry.handle = queue;
  uint64_t other_id = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, other] : entries_) {
      if (other.info.state == kRunning && other.queue == queue->id) other_id = id;
    }
    if (other_id == 0) {
      entry.info.id = ++last_id_;
      entries_[entry.info.id] = entry;
    }
  }
  if (other_id != 0) {
    return answer(
        PeerError::soft(409, "redrive " + std::to_string(other_id) + " of " +
                                 queue_named(queue->identity.name, queue->identity.vhost) +
                                 " is under way: wait for it or cancel it"));
  }
  const uint64_t id = entry.info.id;
  store(entry, [this, id, queue, answer = std::move(answer)] {
    answer(RedriveStarted{id, 0});
    run(id, queue);
  });
}

void Redrives::count(std::shared_ptr<QueueHandle> queue, RedriveRequest request,
                     Answer<RedriveStarted> answer) {
  auto progress = std::make_shared<RedriveProgress>();
  auto targets = std::make_shared<RedriveTargets>();
  RedriveEvents events;
  events.planned = [](const RedrivePlan&) {};
  events.counted = [targets](RedriveTargets found) { *targets = std::move(found); };
  events.ended = [this, progress, targets, vhost = queue->identity.vhost,
                  answer = std::move(answer)](RedriveEnd end, const std::string& reason) {
    if (end != RedriveEnd::completed) return answer(PeerError::not_found(reason));
    RedriveStarted counted{0, progress->matched.load(), {}, {}};
    if (counted.matched == 0) counted.reason = reason;
    {
      std::shared_lock lock(core_.registry.mutex);
      const auto found = core_.registry.find_vhost(vhost);
      for (const auto& [name, count] : *targets) {
        if (!found || !found->find_queue(name)) counted.missing[name] = count;
      }
    }
    answer(std::move(counted));
  };
  queue->redrive(order_of(0, request), progress, std::move(events));
}

void Redrives::run(uint64_t id, std::shared_ptr<QueueHandle> queue) {
  RedriveOrder order;
  std::shared_ptr<RedriveProgress> progress;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(id);
    if (entry.info.state != kRunning) return;
    entry.handle = queue;
    order = order_of(id, entry.info.request);
    order.plan = entry.plan;
    progress = entry.progress;
  }
  RedriveEvents events;
  events.planned = [this, id](RedrivePlan plan) { planned(id, std::move(plan)); };
  events.ended = [this, id](RedriveEnd end, std::string reason) {
    ended(id, state_name(end), std::move(reason));
  };
  queue->redrive(std::move(order), std::move(progress), std::move(events));
}

void Redrives::planned(uint64_t id, RedrivePlan plan) {
  Entry copy;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(id);
    entry.plan = std::move(plan);
    copy = entry;
  }
  store(copy, [handle = copy.handle, id] {
    if (auto queue = handle.lock()) queue->go_redrive(id);
  });
}

void Redrives::ended(uint64_t id, const std::string& state, std::string reason) {
  Entry copy;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(id);
    entry.info = shown(entry);
    entry.info.state = state;
    entry.info.reason = std::move(reason);
    entry.info.finished_ms = core_.clock.system_now().floor_ms();
    copy = entry;
  }
  log_for("broker")->info("redrive {} of {} {}: {} of {} moved: {}", id,
                          queue_named(copy.info.queue, copy.info.vhost), state, copy.info.moved,
                          copy.info.matched, copy.info.reason);
  store(copy, [] {});
  forget_old();
}

void Redrives::forget_old() {
  DefinitionBatch batch;
  {
    std::lock_guard lock(mutex_);
    size_t ended = 0;
    for (const auto& [id, entry] : entries_) ended += entry.info.state != kRunning ? 1 : 0;
    for (auto it = entries_.begin(); it != entries_.end() && ended > kEndedMax;) {
      if (it->second.info.state == kRunning) {
        ++it;
        continue;
      }
      batch.erases.push_back(definition::redrive_key(it->first));
      it = entries_.erase(it);
      --ended;
    }
  }
  if (batch.empty()) return;
  std::unique_lock lock(core_.registry.mutex);
  core_.commit(lock, std::move(batch));
}

// -- Looking and cancelling

std::vector<RedriveInfo> Redrives::list() const {
  std::lock_guard lock(mutex_);
  std::vector<RedriveInfo> out;
  for (const auto& [id, entry] : entries_) out.push_back(shown(entry));
  return out;
}

std::optional<RedriveInfo> Redrives::find(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  if (it == entries_.end()) return std::nullopt;
  return shown(it->second);
}

void Redrives::cancel(uint64_t id) {
  std::shared_ptr<QueueHandle> handle;
  {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(id);
    if (it != entries_.end()) handle = it->second.handle.lock();
  }
  if (handle) handle->cancel_redrive(id);
}

}  // namespace tarry
