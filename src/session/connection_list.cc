#include "tarrymq/session/connection_list.h"

#include "session/connection_impl.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"

namespace tarry {

const char* connection_state_name(ConnectionState state) {
  switch (state) {
    case ConnectionState::running:
      return "running";
    case ConnectionState::blocked:
      return "blocked";
    case ConnectionState::closing:
      return "closing";
    case ConnectionState::closed:
      return "closed";
  }
  return "closed";
}

std::vector<std::shared_ptr<const ChannelFigures>> ConnectionFigures::channels() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const ChannelFigures>> out;
  out.reserve(channels_.size());
  for (const auto& [number, channel] : channels_) out.push_back(channel);
  return out;
}

void ConnectionFigures::add_channel(std::shared_ptr<const ChannelFigures> channel) {
  std::lock_guard lock(mutex_);
  const uint16_t number = channel->number;
  channels_.insert_or_assign(number, std::move(channel));
  ++channels_opened_;
  channel_count.store(static_cast<uint32_t>(channels_.size()), std::memory_order_relaxed);
}

void ConnectionFigures::remove_channel(uint16_t number) {
  std::lock_guard lock(mutex_);
  const auto it = channels_.find(number);
  if (it == channels_.end()) return;
  const ChannelFigures& c = *it->second;
  past_published_ += c.published.load(std::memory_order_relaxed);
  past_confirmed_ += c.confirmed.load(std::memory_order_relaxed);
  past_returned_ += c.returned.load(std::memory_order_relaxed);
  past_unroutable_ += c.unroutable.load(std::memory_order_relaxed);
  channels_.erase(it);
  channel_count.store(static_cast<uint32_t>(channels_.size()), std::memory_order_relaxed);
}

std::vector<std::shared_ptr<const ConnectionFigures>> ConnectionList::all() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const ConnectionFigures>> out;
  out.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) out.push_back(entry.figures);
  return out;
}

std::shared_ptr<const ConnectionFigures> ConnectionList::find(ConnectionId id) const {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : it->second.figures;
}

size_t ConnectionList::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void ConnectionList::add_up(ConnectionTotals& sum, const ConnectionFigures& figures) {
  std::lock_guard lock(figures.mutex_);
  sum.bytes_in += figures.bytes_in.load(std::memory_order_relaxed);
  sum.bytes_out += figures.bytes_out.load(std::memory_order_relaxed);
  sum.channels_opened += figures.channels_opened_;
  sum.channels_closed += figures.channels_opened_ - figures.channels_.size();
  sum.published += figures.past_published_;
  sum.confirmed += figures.past_confirmed_;
  sum.returned += figures.past_returned_;
  sum.unroutable += figures.past_unroutable_;
  for (const auto& [number, channel] : figures.channels_) {
    sum.published += channel->published.load(std::memory_order_relaxed);
    sum.confirmed += channel->confirmed.load(std::memory_order_relaxed);
    sum.returned += channel->returned.load(std::memory_order_relaxed);
    sum.unroutable += channel->unroutable.load(std::memory_order_relaxed);
  }
}

ConnectionTotals ConnectionList::totals() const {
  std::lock_guard lock(mutex_);
  ConnectionTotals sum = past_;
  for (const auto& [id, entry] : entries_) add_up(sum, *entry.figures);
  return sum;
}

std::vector<std::string> ConnectionList::alarms() const {
  std::lock_guard lock(mutex_);
  return alarms_;
}

bool ConnectionList::close(ConnectionId id, uint16_t code, const std::string& text) {
  QueueShard* home = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(id);
    if (it == entries_.end()) return false;
    home = it->second.home;
  }
  // The connection may be gone when this arrives: it is looked up there.
  home->shard().post([home, id, code, text] {
    if (auto* connection = ConnectionImpl::find(*home, id)) connection->close(code, text);
  });
  return true;
}

void ConnectionList::close_all(uint16_t code, const std::string& text) {
  for (const auto& figures : all()) close(figures->info.id, code, text);
}

void ConnectionList::tell_alarms(ConnectionId id, QueueShard& home) const {
  std::string reason = alarms_.empty() ? std::string() : alarms_.front();
  home.shard().post([&home, id, blocked = !alarms_.empty(), reason = std::move(reason)] {
    if (auto* connection = ConnectionImpl::find(home, id)) connection->set_blocked(blocked, reason);
  });
}

void ConnectionList::set_blocked(bool blocked, const std::string& reason) {
  std::lock_guard lock(mutex_);
  bool before = !alarms_.empty();
  std::erase(alarms_, reason);
  if (blocked) alarms_.push_back(reason);
  if (before == !alarms_.empty()) return;
  for (const auto& [id, entry] : entries_) tell_alarms(id, *entry.home);
}

void ConnectionList::add(std::shared_ptr<ConnectionFigures> figures, QueueShard& home) {
  std::lock_guard lock(mutex_);
  ConnectionId id = figures->info.id;
  entries_[id] = Entry{std::move(figures), &home};
  if (!alarms_.empty()) tell_alarms(id, home);
}

QueueShard* ConnectionList::home_of(ConnectionId id) const {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : it->second.home;
}

void ConnectionList::add_reply_consumer(uint64_t secret) {
  std::lock_guard lock(mutex_);
  reply_consumers_.insert(secret);
}

void ConnectionList::remove_reply_consumer(uint64_t secret) {
  std::lock_guard lock(mutex_);
  reply_consumers_.erase(secret);
}

bool ConnectionList::has_reply_consumer(uint64_t secret) const {
  std::lock_guard lock(mutex_);
  return reply_consumers_.contains(secret);
}

void ConnectionList::remove(ConnectionId id) {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  add_up(past_, *it->second.figures);
  entries_.erase(it);
}

}  // namespace tarry
