#include "broker/recovery.h"

#include <latch>
#include <map>
#include <set>

#include "broker/declare.h"
#include "broker/definition_codec.h"
#include "broker/desk.h"
#include "broker/holding.h"
#include "broker/passwords.h"
#include "broker/redrives.h"
#include "tarrymq/runtime/as_shard.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {
namespace {

using definition::Kind;

struct Stored {
  std::vector<std::string> parts;
  FieldTable table;
};

/// A queue to be brought back.
struct Returning {
  std::shared_ptr<Vhost> vhost;
  QueueId id;
  CheckedQueue checked;
  std::shared_ptr<QueueEntry> entry;
};

class Recovery {
 public:
  explicit Recovery(Core& core) : core_(core) {}

  Result<void, std::string> run() {
    auto everything = core_.definitions.read_all();
    std::vector<QueueId> directories = core_.store.queue_directories();
    if (everything.empty()) {
      if (!directories.empty()) {
        return "the definitions are empty, but there are " + std::to_string(directories.size()) +
               " queue directories: refusing to start as an empty broker over data";
      }
      begin_anew();
      return {};
    }
    for (const auto& [key, value] : everything) {
      if (auto read = sort_in(key, value); !read) return read;
    }
    if (auto made = make_names(); !made) return made;
    bring_queues_back();
    if (auto unopened = core_.store.unopened_logs(); !unopened.empty()) {
      return "refusing to start: " + std::to_string(unopened.size()) +
             " logs cannot be opened, first " + unopened[0];
    }
    clear_directories(directories);
    return {};
  }

 private:
  void begin_anew();
  Result<void, std::string> sort_in(const std::string& key, const std::string& value);
  Result<void, std::string> make_names();
  Result<void, std::string> make_queue(const Stored& stored);
  void bring_queues_back();
  /// The three steps of it: on that shard, then once, then on that shard.
  void open_queues_of(size_t shard, std::vector<std::pair<Origin, QueueId>>& origins);
  void make_queues_known(const std::vector<std::vector<std::pair<Origin, QueueId>>>& origins);
  void make_bindings();
  /// On that shard.
  void finish_moves_from(size_t shard) const;
  void clear_directories(const std::vector<QueueId>& directories);

  Core& core_;
  std::map<Kind, std::vector<Stored>> stored_;
  std::vector<Returning> returning_;
  std::set<uint64_t> tombstones_;
  std::map<Origin, std::vector<QueueId>> holders_;
  std::unordered_map<QueueId, std::shared_ptr<QueueHandle>> handles_;
};

void Recovery::begin_anew() {
  Registry& registry = core_.registry;
  const BrokerOptions& options = core_.options;
  auto vhost = registry.add_vhost("/");
  vhost->about.description = "Default virtual host";
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::vhost_key("/"), definition::vhost_value(*vhost));
  if (!options.default_user.empty()) {
    UserInfo user;
    user.name = options.default_user;
    user.password_hash = hash_password(options.default_password);
    user.tags = {"administrator"};
    PermissionInfo all{user.name, "/", ".*", ".*", ".*"};
    Rights rights{all, *Pattern::compile(".*"), *Pattern::compile(".*"), *Pattern::compile(".*")};
    batch.puts.emplace_back(definition::user_key(user.name), definition::user_value(user));
    batch.puts.emplace_back(definition::permission_key("/", user.name),
                            definition::permission_value(all));
    vhost->rights.emplace(user.name, std::move(rights));
    registry.users.emplace(user.name, std::move(user));
  }
  core_.definitions.write_and_wait(std::move(batch));
}

Result<void, std::string> Recovery::sort_in(const std::string& key, const std::string& value) {
  auto parsed = definition::parse_key(key);
  if (!parsed) return std::string("a definition has a key that this version does not know");
  auto table = definition::open_value(value);
  if (!table)
    return "the definition of '" + parsed->parts.back() + "' cannot be read: " + table.error();
  if (parsed->kind == Kind::tombstone) {
    tombstones_.insert(std::stoull(parsed->parts[0]));
    return {};
  }
  stored_[parsed->kind].push_back({std::move(parsed->parts), std::move(*table)});
  return {};
}

Result<void, std::string> Recovery::make_names() {
  Registry& registry = core_.registry;
  for (const Stored& s : stored_[Kind::vhost]) {
    registry.add_vhost(s.parts[0])->about = definition::vhost_from(s.parts[0], s.table);
  }
  for (const Stored& s : stored_[Kind::user])
    registry.users[s.parts[0]] = definition::user_from(s.parts[0], s.table);
  for (const Stored& s : stored_[Kind::parameter]) {
    registry.parameters[{s.parts[0], s.parts[1], s.parts[2]}] =
        definition::parameter_from(s.parts, s.table);
  }
  for (const Stored& s : stored_[Kind::permission]) {
    auto vhost = registry.find_vhost(s.parts[0]);
    if (!vhost) continue;
    PermissionInfo info = definition::permission_from(s.parts[0], s.parts[1], s.table);
    auto configure = Pattern::compile(info.configure), write = Pattern::compile(info.write),
         read = Pattern::compile(info.read);
    if (!configure || !write || !read)
      return "the permissions of user '" + info.user + "' are no regular expressions";
    vhost->rights[info.user] = Rights{info, *configure, *write, *read};
  }
  for (const Stored& s : stored_[Kind::topic_permission]) {
    auto vhost = registry.find_vhost(s.parts[0]);
    if (!vhost) continue;
    auto rights = compile_topic_rights(definition::topic_permission_from(s.parts, s.table));
    if (!rights)
      return "the topic permissions of user '" + s.parts[1] + "': " + rights.error().text;
    vhost->topic_rights[s.parts[1]].insert_or_assign(s.parts[2], std::move(*rights));
  }
  for (bool operators : {false, true}) {
    for (const Stored& s : stored_[operators ? Kind::operator_policy : Kind::policy]) {
      auto vhost = registry.find_vhost(s.parts[0]);
      if (!vhost) continue;
      auto policy =
          check_policy(definition::policy_from(s.parts[0], s.parts[1], s.table), operators);
      if (!policy)
        return "policy '" + s.parts[1] + "' in vhost '" + s.parts[0] + "': " + policy.error().text;
      (operators ? vhost->operator_policies : vhost->policies)[s.parts[1]] = std::move(*policy);
    }
  }
  for (const Stored& s : stored_[Kind::exchange]) {
    auto vhost = registry.find_vhost(s.parts[0]);
    if (!vhost) continue;
    ExchangeDeclare d = definition::exchange_from(s.parts[1], s.table);
    auto type = exchange_type_of(d.type);
    if (!type) return "exchange '" + d.name + "' is of unknown type '" + d.type + "'";
    auto exchange =
        Exchange::create({d.name, *type, true, d.auto_delete, d.internal, std::move(d.arguments)});
    if (!exchange) return "exchange '" + d.name + "': " + exchange.error().text;
    vhost->exchanges[s.parts[1]] = std::move(*exchange);
  }
  for (const Stored& s : stored_[Kind::redrive]) {
    if (auto restored = core_.redrives->restore(s.parts[0], s.table); !restored) return restored;
  }
  for (const Stored& s : stored_[Kind::queue]) {
    if (auto made = make_queue(s); !made) return made;
  }
  return {};
}

Result<void, std::string> Recovery::make_queue(const Stored& s) {
  Returning r;
  r.vhost = core_.registry.find_vhost(s.parts[0]);
  if (!r.vhost) return {};
  definition::StoredQueue stored = definition::queue_from(s.parts[1], s.table);
  auto checked = check_queue(s.parts[0], stored.declare);
  if (!checked)
    return "queue '" + s.parts[1] + "' in vhost '" + s.parts[0] + "': " + checked.error().text;
  r.id = stored.id;
  r.checked = std::move(*checked);
  r.entry = std::make_shared<QueueEntry>();
  r.entry->durable = true;
  r.entry->overflow_declared = stored.declare.arguments.find("x-overflow") != nullptr;
  r.entry->arguments = std::move(stored.declare.arguments);
  r.entry->declared = r.checked.settings;
  r.entry->retry_override = stored.retry_override;
  core_.registry.refresh_policy(*r.vhost, r.checked.identity, *r.entry);
  returning_.push_back(std::move(r));
  return {};
}

void Recovery::bring_queues_back() {
  size_t count = core_.shards.size();
  std::vector<std::vector<std::pair<Origin, QueueId>>> origins(count);
  if (core_.options.shards_share_thread) {
    for (size_t i = 0; i < count; ++i)
      run_as_shard(*core_.shards[i], [&] { open_queues_of(i, origins[i]); });
    make_queues_known(origins);
    for (size_t i = 0; i < count; ++i)
      run_as_shard(*core_.shards[i], [&] { finish_moves_from(i); });
    return;
  }
  std::latch recovered(static_cast<ptrdiff_t>(count)), names_known(1),
      done(static_cast<ptrdiff_t>(count));
  for (size_t i = 0; i < count; ++i) {
    core_.shards[i]->post([&, i] {
      open_queues_of(i, origins[i]);
      recovered.count_down();
      // Within this task, so that no queue acts before: what expired meanwhile must find its
      // dead-letter targets, and a half-done move must be known as one.
      names_known.wait();
      finish_moves_from(i);
      done.count_down();
    });
  }
  recovered.wait();
  make_queues_known(origins);
  names_known.count_down();
  done.wait();
}

void Recovery::open_queues_of(size_t shard, std::vector<std::pair<Origin, QueueId>>& origins) {
  for (Returning& r : returning_) {
    if (core_.shard_index_of(r.id) != shard) continue;
    QueueSettings settings = core_.registry.effective(r.checked.identity, *r.entry);
    r.entry->handle =
        core_.queue_shards[shard]->recover(r.id, r.checked.identity, std::move(settings), origins);
  }
}

void Recovery::make_queues_known(
    const std::vector<std::vector<std::pair<Origin, QueueId>>>& origins) {
  std::unique_lock lock(core_.registry.mutex);
  for (Returning& r : returning_) core_.registry.add_queue(*r.vhost, r.entry);
  make_bindings();
  for (auto& [name, vhost] : core_.registry.vhosts) {
    link_holding_queues(*vhost);
    core_.registry.refresh_policies(*vhost);
  }
  for (const auto& found : origins) {
    for (const auto& [origin, holder] : found) holders_[origin].push_back(holder);
  }
  for (const Returning& r : returning_) handles_[r.id] = r.entry->handle;
}

void Recovery::make_bindings() {
  for (const Stored& s : stored_[Kind::binding]) {
    auto vhost = core_.registry.find_vhost(s.parts[0]);
    if (!vhost) continue;
    DefinitionBatch nothing_new;
    BindingSpec spec = definition::binding_from(s.table);
    auto bound = core_.registry.bind(*vhost, spec, nothing_new);
    if (!bound) {
      log_for("broker")->error("binding from '{}' to '{}' in vhost '{}' left out: {}", spec.source,
                               spec.destination, s.parts[0], bound.error().text);
    }
  }
}

void Recovery::finish_moves_from(size_t shard) const {
  for (const auto& [origin, in] : holders_) {
    auto source = handles_.find(origin.queue);
    bool known = source != handles_.end();
    // A source that was deleted has nothing to drop; the first shard tells its holders.
    if (shard != (known ? core_.shard_index_of(origin.queue) : 0)) continue;
    QueueShard& home = *core_.queue_shards[shard];
    if (known && home.finish_move(*source->second, origin, in)) continue;
    std::vector<std::shared_ptr<QueueHandle>> holders;
    for (QueueId holder : in) holders.push_back(handles_.at(holder));
    // The source may have dropped its copy just now, for want of a dead-letter exchange: after a
    // power cut it would be back, and nothing would say any more that the holders have it.
    home.store().when_durable([origin = origin, holders = std::move(holders)] {
      for (const auto& holder : holders) holder->close_move(origin);
    });
  }
}

void Recovery::clear_directories(const std::vector<QueueId>& directories) {
  std::set<uint64_t> known;
  for (const Returning& r : returning_) known.insert(r.id.value);
  for (QueueId id : directories) {
    if (known.contains(id.value)) continue;
    if (tombstones_.contains(id.value))
      core_.store.remove_queue_directory(id);
    else
      log_for("broker")->warn("directory {} belongs to no queue that is defined; it is left alone",
                              core_.store.queue_directory(id));
  }
  if (tombstones_.empty()) return;
  DefinitionBatch batch;
  for (uint64_t id : tombstones_) batch.erases.push_back(definition::tombstone_key(QueueId{id}));
  // After the directories: the store thread works in order.
  core_.store.on_store_thread(
      [all = &core_.definitions, batch = std::move(batch)] { all->write(batch, [] {}); });
}

}  // namespace

Result<void, std::string> recover_broker(Core& core) { return Recovery(core).run(); }

}  // namespace tarry
